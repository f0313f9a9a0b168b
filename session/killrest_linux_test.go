package session_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/session"
)

// A session that has ended cannot be killed. It is said how what it left can be.
func TestKillOfWhatWasLeft(t *testing.T) {
	l := open(t, hostexec.Config{WardenPath: wardenbintest.Build(t)}, testdir.New(t))
	for command, left := range map[string]bool{"sleep 300 & true": true, "true": false} {
		s, err := l.Begin(t.Context(), session.Options{Background: true, Command: corral.Command{Args: []string{"/bin/sh", "-c", command}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Watch(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Kill(t.Context()); !errors.Is(err, corral.ErrEnded) || strings.Contains(corral.Hint(err), "--signal KILL "+s.ID()) != left {
			t.Errorf("%s: %v (%s)", command, err, corral.Hint(err))
		}
		if err := s.Signal(t.Context(), corral.SIGKILL); errors.Is(err, corral.ErrEnded) == left {
			t.Errorf("%s: a signal: %v", command, err)
		}
	}
}

// A shell dies of SIGTERM at once. What it ran has the rest of the grace to end, and no more.
func TestKillReachesWhatAShellLeaves(t *testing.T) {
	l := open(t, hostexec.Config{WardenPath: wardenbintest.Build(t)}, testdir.New(t))
	for _, tc := range []struct {
		name, trap string
		grace      time.Duration
		says       string
	}{
		{"a server that shuts down", `sleep 0.4; echo shut down >"$0"; exit`, time.Minute, "shut down\n"},
		{"one that ignores it", "", 300 * time.Millisecond, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			said, pidFile := filepath.Join(dir, "said"), filepath.Join(dir, "pid")
			server := fmt.Sprintf(`trap '%s' TERM; echo $$ >"$1"; while :; do sleep 0.1; done`, tc.trap)
			s, err := l.Begin(t.Context(), session.Options{Background: true, Command: corral.Command{
				Args: []string{"/bin/sh", "-c", `/bin/sh -c "$0" "$1" "$2"; echo ended`, server, said, pidFile}, Grace: tc.grace,
			}})
			if err != nil {
				t.Fatal(err)
			}
			pid := 0
			for pid == 0 {
				text, _ := os.ReadFile(pidFile)
				pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
				time.Sleep(5 * time.Millisecond)
			}
			st, err := s.Kill(t.Context())
			if err != nil || st.Reason != session.ReasonKilled || st.Exit.Signal != corral.SIGTERM {
				t.Errorf("%+v, %v", st, err)
			}
			if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
				t.Errorf("the server is still there: %v", err)
			}
			if text, _ := os.ReadFile(said); string(text) != tc.says {
				t.Errorf("the server said %q, want %q", text, tc.says)
			}
		})
	}
}
