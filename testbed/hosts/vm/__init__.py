"""Virtual machines made of nothing but Debian's packages: a box, a hypervisor of our own, and a trial of both."""
