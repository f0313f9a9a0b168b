// Package job is how corral worker claude hands its work over to the program
// corral-worker-claude: a line of JSON on its standard input, whose end is the end of the
// work. So no key is among arguments or variables, and a worker whose starter is gone
// ends in good order. The program is one of its own, since Anthropic's SDK would make
// corral a third larger.
package job

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/corral-exec/corral/client"
)

const (
	// Program is the name of the program.
	Program = "corral-worker-claude"
	// API is where Anthropic serves its API.
	API = "https://api.anthropic.com"

	maxJob = 64 << 10 // bytes
)

// A Job is what a worker is to do. All is required.
type Job struct {
	API         string // base URL
	Environment string // ID of the self-hosted environment
	Key         string // of the environment
	Sessions    int    // at a time; the others wait in the queue

	Gateway client.Options // that runs the commands; Session is set for each
	LogJSON bool
	Level   string // of the log: as slog.Level writes it
}

// Run has a program do a job until ctx ends or the program does. The error is an
// *exec.ExitError if the program failed, which has said why on its standard error.
func Run(ctx context.Context, program string, environ []string, stderr io.Writer, j Job) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env, cmd.Stderr = environ, stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", program, err)
	}
	_, err = in.Write(append(text, '\n'))
	stop := context.AfterFunc(ctx, func() { in.Close() })
	defer stop()
	if werr := cmd.Wait(); werr != nil {
		return werr // it also explains why it does not read
	}
	return err
}

// Read reads a job. The context that it returns ends with the input.
func Read(ctx context.Context, in io.Reader) (Job, context.Context, error) {
	var j Job
	lines := bufio.NewReaderSize(in, maxJob)
	text, err := lines.ReadSlice('\n')
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(&j)
	}
	if err != nil {
		return j, ctx, errors.Join(errors.New(Program+" is started by corral worker claude, which writes a job of the same version to its standard input"), err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { // it ends with the input, at the latest with the process
		defer cancel()
		_, _ = io.Copy(io.Discard, lines)
	}()
	return j, ctx, nil
}
