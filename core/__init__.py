"""The ground everyone stands on: units, seeds, errors, records."""
