//go:build e2e

package interactive_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// patience is how long anything here may take to show.
const patience = 30 * time.Second

// glance is how long it takes until one looks again.
const glance = 20 * time.Millisecond

const settings = `
set -g status off
set -g remain-on-exit on
`

// A screen is a terminal with contents: a pane of a tmux of its own.
type screen struct {
	*testing.T
	socket string
	env    []string
}

// newScreen makes a terminal with a program on it, which has that environment;
// nil: this process's.
func newScreen(t *testing.T, size corral.Size, env []string, program string, args ...string) *screen {
	t.Helper()
	dir := testdir.New(t)
	if err := os.WriteFile(filepath.Join(dir, "tmux.conf"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	if env == nil {
		env = append(os.Environ(), "XDG_CONFIG_HOME="+dir) // not the configuration of this machine
	}
	// The directory in its environment has a tmux that a killed test leaves go
	// with the directory.
	s := &screen{T: t, socket: filepath.Join(dir, "tmux"), env: append(env, "TMUX_TMPDIR="+dir)}
	start := []string{"-f", filepath.Join(dir, "tmux.conf"), "new-session", "-d", "-x", strconv.Itoa(int(size.Cols)), "-y", strconv.Itoa(int(size.Rows))}
	s.tmux(append(append(start, "--", program), args...)...)
	t.Cleanup(func() { s.tmux("kill-server") })
	return s
}

func (s *screen) tmux(args ...string) string {
	s.Helper()
	cmd := exec.Command("tmux", append([]string{"-u", "-S", s.socket}, args...)...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// ask returns what a format of tmux says of the pane.
func (s *screen) ask(format string) string {
	s.Helper()
	return strings.TrimSuffix(s.tmux("display-message", "-p", format), "\n")
}

func (s *screen) resize(size corral.Size) {
	s.Helper()
	s.tmux("resize-window", "-x", strconv.Itoa(int(size.Cols)), "-y", strconv.Itoa(int(size.Rows)))
}

// picture is what is on the screen: all its lines, without spaces at their ends.
func (s *screen) picture() string {
	s.Helper()
	lines := strings.Split(strings.TrimSuffix(s.tmux("capture-pane", "-p"), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// styled is a picture with the escape sequences of its colours.
func (s *screen) styled() string {
	s.Helper()
	return s.tmux("capture-pane", "-p", "-e")
}

var style = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// framed is a picture for a log.
func framed(picture string) string {
	return "  | " + strings.ReplaceAll(picture, "\n", "\n  | ")
}

// A sight is something that one waits to see.
type sight struct {
	what string
	seen func(picture string) bool
}

// shows is a picture that matches a regular expression, in which ^ and $ are
// the ends of lines.
func shows(expression string) sight {
	re := regexp.MustCompile("(?m)" + expression)
	return sight{fmt.Sprintf("%q", expression), re.MatchString}
}

// lacks is one that does not.
func lacks(expression string) sight {
	re := regexp.MustCompile("(?m)" + expression)
	return sight{fmt.Sprintf("no %q", expression), func(picture string) bool { return !re.MatchString(picture) }}
}

// missing are the sights that a picture lacks.
func missing(picture string, sights []sight) []string {
	var list []string
	for _, one := range sights {
		if !one.seen(picture) {
			list = append(list, one.what)
		}
	}
	return list
}
