"""Java is found or asked for: homes with a program in bin/java, which is run."""

import pytest

from core import java
from core.errors import MachineError


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A checkout without Java, and nothing on the PATH but a shell."""
    monkeypatch.setattr(java, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return monkeypatch


def test_java_home_then_the_checkout_then_the_path(machine, java_home):
    on_path = java_home("path", 21)
    machine.setenv("PATH", str(on_path / "bin"))
    assert java.find_java() == on_path
    own = java_home("checkout/.java", 17)
    assert java.find_java() == own
    named = java_home("named", 25)
    machine.setenv("JAVA_HOME", str(named))
    assert java.find_java() == named


def test_an_old_or_broken_java_is_passed_over(machine, java_home, tmp_path):
    machine.setenv("JAVA_HOME", str(java_home("old", "1.8")))
    own = java_home("checkout/.java", 17)
    assert java.find_java() == own
    machine.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert java.find_java() == own


def test_no_java_is_one_line_with_the_fix(machine, java_home):
    with pytest.raises(MachineError, match=r"Spark needs Java 17: none found; install Java 17"):
        java.find_java()
    machine.setenv("JAVA_HOME", str(java_home("old", "1.8")))
    with pytest.raises(MachineError, match=r"old is Java 8; install Java 17 .*JAVA_HOME"):
        java.find_java()
