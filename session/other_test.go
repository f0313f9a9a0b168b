package session

import (
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
)

// What the command is that has an ID already. Of other agents nothing is said.
func TestOther(t *testing.T) {
	long := strings.Repeat("x", MaxText)
	for _, tt := range []struct {
		old  origin.Origin
		dir  string // of the old one
		cmd  corral.Command
		want string
	}{
		{origin.Origin{Agent: "main", Command: "ls"}, "/a", corral.Command{Shell: "ls"}, "the same command with another environment"},
		{origin.Origin{Agent: "other", Command: "ls"}, "/a", corral.Command{Shell: "ls"}, "another command"},
		{origin.Origin{Agent: "main", Command: "cat"}, "/a", corral.Command{Shell: "ls"}, "another command"},
		{origin.Origin{Agent: "main", Command: long}, "/a", corral.Command{Shell: long}, "the same command with another environment"},
		{origin.Origin{Agent: "main", Command: shortened(long + "y")}, "/a", corral.Command{Shell: long + "y"}, "another command"},
		{origin.Origin{Agent: "main", Command: "ls", TTY: true}, "/a", corral.Command{Shell: "ls"}, "the same command on a terminal"},
		{origin.Origin{Agent: "main", Command: "ls"}, "/a", corral.Command{Shell: "ls", TTY: &corral.Size{}}, "the same command without a terminal"},
		{origin.Origin{Agent: "main", Command: "ls", TTY: true}, "/a", corral.Command{Shell: "ls", TTY: &corral.Size{}}, "the same command with another environment"},
		{origin.Origin{Agent: "main", Command: "ls"}, "/a", corral.Command{Shell: "ls", Dir: "/b"}, "the same command in another directory, /a"},
		{origin.Origin{Agent: "main", Command: "ls"}, "/a", corral.Command{Shell: "ls", Dir: "/b/../a"}, "the same command with another environment"},
		{origin.Origin{Agent: "main", Command: "ls"}, "/a", corral.Command{Shell: "ls", Dir: "b"}, "the same command with another environment"},
		{origin.Origin{Agent: "main", Command: "ls"}, "", corral.Command{Shell: "ls", Dir: "/b"}, "the same command with another environment"},
	} {
		old := newSession(nil, "x", begun{Origin: tt.old})
		old.info = &corral.Info{Dir: tt.dir}
		s := newSession(nil, "x", begun{Origin: origin.Origin{Agent: "main", Command: shortened(text(tt.cmd)), TTY: tt.cmd.TTY != nil}})
		if got := (Agent{name: "main"}).other(old, s, tt.cmd); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%.20q beside %.20q: %s, want %s", tt.old.Command, tt.cmd.Shell, got, tt.want)
		}
	}
}

// The digest tells commands apart by what they do, not by what is around them at the moment.
func TestDigest(t *testing.T) {
	plain := digest(corral.Command{Shell: "ls"})
	terminal := digest(corral.Command{Shell: "ls", TTY: &corral.Size{Rows: 1, Cols: 2}})
	for name, tt := range map[string]struct {
		cmd  corral.Command
		want string
	}{
		"input":            {corral.Command{Shell: "ls", Stdin: true}, plain},
		"a smaller log":    {corral.Command{Shell: "ls", Log: corral.LogLimit{Head: 1}}, plain},
		"another terminal": {corral.Command{Shell: "ls", TTY: &corral.Size{Rows: 7, Cols: 9}}, terminal},
	} {
		if got := digest(tt.cmd); got != tt.want {
			t.Errorf("%s: another command", name)
		}
	}
	if terminal == plain || digest(corral.Command{Shell: "cat"}) == plain {
		t.Error("two commands have one digest")
	}
}

// A command on a terminal has one stream, and so has one that asks for that.
func TestMergedStreams(t *testing.T) {
	inBubble(t, func(r *rig) {
		for _, tt := range []struct {
			cmd    corral.Command
			tty    bool
			merged bool
		}{
			{corral.Command{}, false, false},
			{corral.Command{MergeStderr: true}, false, true},
			{corral.Command{TTY: &corral.Size{Rows: 1, Cols: 2}}, true, true},
		} {
			s := r.begin("cat", Options{Background: true, Command: tt.cmd})
			if s.start.TTY != tt.tty || s.start.Merged != tt.merged {
				t.Errorf("%+v: %+v", tt.cmd, s.start)
			}
			if st := s.Status(r.Context()); st.TTY != tt.tty || st.Stdin != tt.tty {
				t.Errorf("%+v: on a terminal %v, with input %v", tt.cmd, st.TTY, st.Stdin)
			}
			if _, err := s.Kill(r.Context()); err != nil && !errors.Is(err, corral.ErrEnded) {
				t.Error(err)
			}
		}
	})
}
