//go:build e2e

// Package interactive_test drives programs that draw on a terminal as somebody
// does who sits in front of it: vim, htop, python3, bash and ssh-keygen, on this
// machine and in a sandbox. Keys are sent by name and text is pasted; what is
// compared is what a terminal shows then, and what the programs leave behind.
//
// The terminal that shows it is tmux. The sandbox's image is made of this
// machine's programs; see image.
package interactive_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
