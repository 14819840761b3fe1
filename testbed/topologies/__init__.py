"""What hosts there are and how far apart: built from plain options, checked, without any process or socket."""
