"""Pure algorithms that several systems share: functions of numbers, each with generated ground truth in its tests."""
