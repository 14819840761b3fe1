"""What bootstrap.sh does before it makes anything, in a folder where all that it makes is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
POLICY = "/usr/sbin/policy-rc.d"
PYTHON = "case $* in *class_archive*) echo made >>archives; exit $(cat status);; *) echo python3.12;; esac"
OURS = "#!/bin/sh\nexit 101 # by Ratebed's bootstrap.sh, while it installs"


def write_program(program: Path, script: str) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def bootstrap(folder: Path, user: int, *words: str) -> "subprocess.CompletedProcess[str]":
    """A call where all packages are there, by root (0) or another; its programs can install nothing."""
    text = (ROOT / "bootstrap.sh").read_text()
    assert text.count(POLICY) == 1
    (folder / "bootstrap.sh").write_text(text.replace(POLICY, str(folder / "policy")))
    programs = {"id": f"echo {user}", ".venv/bin/python": PYTHON, "python": "echo python3.12"}
    for name, script in programs.items():
        write_program(folder / name, script)
    (folder / ".venv" / "lib" / "python3.12").mkdir(parents=True, exist_ok=True)
    for lock in ("requirements-build.lock", "requirements.lock"):
        (folder / lock).touch()
    ready = subprocess.run(["cksum"], input=f"{folder}\n", capture_output=True, text=True, check=True).stdout
    (folder / ".venv" / "ready").write_text(ready)
    settings = {"PATH": f"{folder}:/usr/bin:/bin", "PYTHON": str(folder / "python"), "SYSTEM_PACKAGES": "no"}
    return subprocess.run(["bash", str(folder / "bootstrap.sh"), *words], env=settings, capture_output=True, text=True)


@pytest.mark.parametrize(("user", "text", "left"), [
    (0, f"{OURS}: 0\n", False),
    (0, f"{OURS}\n", False),
    (0, f"{OURS}: {{installer}} 0\n", True),
    (0, f"{OURS}: {{other}}\n", False),
    (0, "#!/bin/sh\nexit 101\n", True),
    (1000, f"{OURS}: 0\n", True),
])  # fmt: skip
def test_a_policy_goes_only_by_root_and_once_nobody_installs(tmp_path: Path, user: int, text: str, left: bool) -> None:
    """One of an installer that was killed, of other checkouts', of a process that has its PID now, the user's own."""
    policy = tmp_path / "policy"
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen([*sleeping, "bootstrap.sh"]) as installer, subprocess.Popen(sleeping) as other:
        policy.write_text(text.format(installer=installer.pid, other=other.pid))
        try:
            done = bootstrap(tmp_path, user, "packages")
        finally:
            installer.kill()
            other.kill()
    assert (done.returncode, done.stderr) == (0, "")
    assert policy.exists() == left


def test_of_two_that_install_the_last_one_lifts_the_policy(tmp_path: Path) -> None:
    """The functions alone, without apt-get: the first that ends leaves it to the other."""
    policy = tmp_path / "policy"
    (tmp_path / "bootstrap.sh").write_text((ROOT / "bootstrap.sh").read_text().partition("# --- Python")[0])
    (tmp_path / "installing").write_text(
        f". {tmp_path}/bootstrap.sh\npolicy={policy}\nkeep_daemons_down\necho\nread _\n"
    )
    words = ["bash", str(tmp_path / "installing"), "bootstrap.sh"]
    kinds = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **kinds) as one:
        assert one.stdout and one.stdout.readline() == "\n"
        with subprocess.Popen(words, **kinds) as two:
            assert two.stdout and two.stdout.readline() == "\n"
            assert one.communicate("\n") and policy.exists()
            assert two.communicate("\n") and not policy.exists()


def test_sparks_classes_are_kept_anew_for_another_java_and_once_for_each(tmp_path: Path) -> None:
    """One that keeps none (3) is not asked again, one that failed otherwise is."""
    for name in ("pyproject.toml", ".venv/ourselves"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    os.utime(tmp_path / "pyproject.toml", (0, 0))
    made = []
    for version, status in ((17, 0), (17, 0), (18, 1), (18, 0), (18, 0), (19, 3), (19, 0)):
        write_program(tmp_path / ".java" / "bin" / "java", f"echo '    java.vm.version = {version}.0.1' >&2")
        (tmp_path / "status").write_text(str(status))
        (tmp_path / "archives").write_text("")
        done = bootstrap(tmp_path, 1000)
        assert done.returncode == 0
        assert ("no archive of Spark's classes" in done.stderr) == (status != 0), done.stderr
        made.append((tmp_path / "archives").read_text() != "")
    assert made == [True, False, True, True, False, True, False]
