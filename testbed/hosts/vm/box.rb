# The Vagrantfile in a box of box.sh: QEMU without hardware virtualisation, which works on every machine, and a kernel
# that is started directly.  The user's own Vagrantfile comes on top of it.
Vagrant.configure("2") do |config|
  config.ssh.private_key_path = File.expand_path("key", __dir__)
  config.ssh.insert_key = false # the key was made for this box alone
  config.vm.provider "libvirt" do |machine|
    machine.driver = "qemu"
    machine.cpu_mode = "custom"
    machine.cpu_model = "Nehalem"
    machine.kernel = File.expand_path("vmlinuz", __dir__)
    machine.initrd = File.expand_path("initrd.img", __dir__)
    machine.cmd_line = "root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet mitigations=off apparmor=0"
  end
end
