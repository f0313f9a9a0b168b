package escape

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// CanaryVar is the environment variable that tells a canary its secret.
const CanaryVar = "CORRAL_ESCAPE_CANARY"

// A Canary is a process of the host. Processes in a sandbox should not be able to see,
// read, signal or connect to it. It reports when one did.
type Canary struct {
	Process Process

	cmd   *exec.Cmd
	stdin io.Closer
	done  chan error

	mu      sync.Mutex
	touched []string
}

// canaryStart bounds how long a canary may take to begin.
const canaryStart = 20 * time.Second

// StartCanary starts the program corral-escape as a canary. args are "-user UID:GID",
// "-listen all" or "-listen loopback".
func StartCanary(secret, program string, args ...string) (*Canary, error) {
	cmd := exec.Command(program, append([]string{"canary"}, args...)...)
	cmd.Env = []string{CanaryVar + "=" + secret}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start a process to be found: %w", err)
	}
	c := &Canary{cmd: cmd, stdin: stdin, done: make(chan error, 1)}
	ready := make(chan error, 1)
	go c.read(stdout, ready)
	select {
	case err = <-ready:
	case <-time.After(canaryStart):
		err = errors.New("it does not begin")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start a process to be found: %w", err), c.Close())
	}
	return c, nil
}

// read reads the canary's output: the first line describes its Process, each further line
// is something that was touched.
func (c *Canary) read(stdout io.Reader, ready chan<- error) {
	lines := bufio.NewScanner(stdout)
	if lines.Scan() {
		ready <- json.Unmarshal(lines.Bytes(), &c.Process)
	} else {
		ready <- errors.Join(errors.New("it ended"), lines.Err())
	}
	for lines.Scan() {
		c.mu.Lock()
		c.touched = append(c.touched, lines.Text())
		c.mu.Unlock()
	}
	c.done <- errors.Join(lines.Err(), c.cmd.Wait())
}

// Touched returns the accesses to it since the last call.
func (c *Canary) Touched() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := slices.Clone(c.touched)
	c.touched = nil
	return t
}

// Close ends the process. It ends by itself when this one does.
func (c *Canary) Close() error {
	if err := c.stdin.Close(); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-time.After(canaryStart):
		return errors.Join(errors.New("the canary did not end"), c.cmd.Process.Kill(), <-c.done)
	}
}
