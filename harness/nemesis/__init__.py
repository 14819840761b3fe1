"""Live runs, and somebody who disturbs them: what became of everything is counted by others, and must agree."""
