//go:build pinned

// Package pinned names the program that go.mod pins, so that its modules stay there; it is never compiled itself.
package pinned

import _ "github.com/versity/versitygw/cmd/versitygw"
