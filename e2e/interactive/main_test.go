//go:build e2e

// Package interactive_test drives programs that draw on a terminal, as a user
// in front of it does: vim, htop, python3, bash and ssh-keygen, on this
// machine and in a sandbox. Keys are sent by name and text is pasted; what is
// compared is what a terminal shows then, and what the programs leave behind.
// It is done by package session, and by the program corral in a terminal.
//
// The terminal that shows it is tmux. The sandbox's image is made of this
// machine's programs; see image.
package interactive_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/internal/cli"
)

// roleVar makes this test binary the program corral.
const roleVar = "CORRAL_INTERACTIVE_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVar) == "corral" {
		os.Exit(cli.Main("v0.0.0-e2e"))
	}
	goleak.VerifyTestMain(m)
}
