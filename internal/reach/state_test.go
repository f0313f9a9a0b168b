package reach

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/api"
)

// A gateway that does not answer is not said to run: at its address there may be none. When
// the caller gives up, that is what is said.
func TestAskOfWhatDoesNotAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, api.TokenFile), []byte(strings.Repeat("a", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Place{StateDir: dir, Getenv: func(name string) string {
		if name == EnvURL {
			return "http://" + silent.Addr().String()
		}
		return ""
	}}
	s, err := p.ask(t.Context(), 100*time.Millisecond)
	if err != nil || s.Running || s.Ready || !strings.Contains(s.Error, "no answer within 100ms") || s.Hint == "" {
		t.Errorf("%+v, %v", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if s, err := p.ask(ctx, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %+v, %v", s, err)
	}
}
