package job

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A job arrives as it was sent, and the program ends when its starter says so.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program") // repeats its input
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec cat >&2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := Job{API: API, Environment: "env", Key: "secret", Sessions: 3, Gateway: client.Options{URL: "http://127.0.0.1:1", Token: "t"}, Level: "INFO"}
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, program, os.Environ(), to, want)
		to.Close()
	}()
	got, ended, err := Read(t.Context(), from)
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	<-ended.Done()
}

func TestFails(t *testing.T) {
	err := Run(t.Context(), "/bin/false", nil, io.Discard, Job{})
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%v", err)
	}
	for _, in := range []string{"", "{}", "{\"Other\":1}\n", "no\n", strings.Repeat("x", maxJob+1)} {
		if _, _, err := Read(t.Context(), strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), "corral worker claude") {
			t.Errorf("%.20q: %v", in, err)
		}
	}
}
