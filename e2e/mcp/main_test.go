//go:build e2e

// Package mcp_test has other people's programs talk to our MCP server: the
// inspector of the Model Context Protocol, over both transports, and the
// conformance suite. Commands run on this machine.
package mcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
	"github.com/corral-exec/corral/tool/mcp"
)

// stateVar makes this test binary a server on its standard streams, with its
// state in that directory.
const stateVar = "CORRAL_E2E_MCP_STATE"

func TestMain(m *testing.M) {
	state := os.Getenv(stateVar)
	if state == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := serve(state); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(state string) error {
	s, stop, err := open(context.Background(), state)
	if err != nil {
		return err
	}
	return errors.Join(s.Serve(context.Background(), os.Stdin, os.Stdout), stop())
}

// open makes a server with all that is under it.
func open(ctx context.Context, state string) (s *mcp.Server, stop func() error, err error) {
	e, err := hostexec.New(hostexec.Config{
		InProcess: true, StateDir: filepath.Join(state, "host"), Workspace: state,
		Environ: []string{"HOME=" + state, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"},
	})
	if err != nil {
		return nil, nil, err
	}
	m, err := session.Open(ctx, session.Config{
		Dir:      filepath.Join(state, "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return e, nil },
	})
	if err != nil {
		return nil, nil, err
	}
	s = mcp.New(mcp.Config{
		Tools: tool.New(tool.Config{Agent: m.Agent("main")}), ProgressEvery: 100 * time.Millisecond,
	})
	return s, func() error {
		for _, stop := range []func() error{s.Close, m.Close, e.Close} {
			if err := stop(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// serveHTTP serves what wrap makes of our handler, and returns its URL.
func serveHTTP(t *testing.T, wrap wrapper) string {
	t.Helper()
	s, stop, err := open(t.Context(), testdir.New(t))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(wrap(s.Handler()))
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	return strings.Replace(srv.URL, "127.0.0.1", "localhost", 1) + "/mcp"
}

// run runs one of the installed programs, by its path below node_modules, and
// returns what it printed.
func run(t *testing.T, program string, args ...string) (stdout string, err error) {
	t.Helper()
	install := exec.Command("../npm.sh", "mcp")
	install.Stderr = os.Stderr
	modules, err := install.Output()
	if err != nil {
		t.Fatalf("cannot install %s: %v", program, err)
	}
	dir := strings.TrimSpace(string(modules))
	bin := filepath.Join(dir, ".bin")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "node"), append([]string{filepath.Join(dir, program)}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+testdir.New(t), "NO_COLOR=1")
	cmd.Dir = testdir.New(t)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %q: %w\n%s%s", program, args, err, out.String(), errs.String())
	}
	return out.String(), nil
}
