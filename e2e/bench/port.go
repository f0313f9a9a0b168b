//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
)

// The ways to a listening port. The same program listens on this machine and in the
// gateway's sandbox, which has no network: busybox sends zeros by dd to each client.
const (
	portLoopback = "loopback TCP"
	portDial     = "sandbox, client.DialPort"
	portForward  = "sandbox, corral sandbox forward"
	portNumber   = 39400
)

// ports is what listens on this machine, and what leads to what listens in the sandbox.
type ports struct {
	owned []*exec.Cmd
}

// addPorts has a program listen on this machine and in the gateway's sandbox, which sends
// volume bytes.
func (s *site) addPorts(ctx context.Context, corralProgram string, volume int64) error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "apt-get install busybox-static", "cannot measure ports: %w", err)
	}
	p := &ports{}
	s.closers = append(s.closers, p)
	args := func(program string) []string {
		return []string{program, "nc", "-ll", "-p", strconv.Itoa(portNumber), "-e", program, "dd", "if=/dev/zero", "bs=64k", "count=" + strconv.FormatInt(volume/block, 10)}
	}
	if _, err := p.start(args(busybox), false); err != nil {
		return err
	}
	f, err := os.Open(busybox)
	if err != nil {
		return err
	}
	defer f.Close()
	c := s.gateway.client
	if _, err := c.Files(session.DefaultAgent).Write(ctx, "busybox", f, files.WriteOptions{Mode: 0o755}); err != nil {
		return err
	}
	if _, err := c.Start(ctx, corral.Command{Args: args("./busybox")}); err != nil {
		return err
	}
	out, err := p.start([]string{corralProgram, "sandbox", "forward", "--state-dir", s.gateway.state, "--json", session.DefaultAgent, strconv.Itoa(portNumber) + ":0"}, true)
	if err != nil {
		return err
	}
	var led struct{ Address string }
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&led); err != nil {
		return fmt.Errorf("corral sandbox forward says no address: %w", err)
	}
	dial := func(address string) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }
	}
	for name, connect := range map[string]func(context.Context) (net.Conn, error){
		portLoopback: dial(net.JoinHostPort("127.0.0.1", strconv.Itoa(portNumber))),
		portForward:  dial(led.Address),
		portDial:     func(ctx context.Context) (net.Conn, error) { return c.DialPort(ctx, session.DefaultAgent, portNumber) },
	} {
		for end := time.Now().Add(readyLimit); ; time.Sleep(20 * time.Millisecond) { // until it listens
			if _, err = readPort(ctx, connect); err == nil {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		s.add(place{name: name, run: func(ctx context.Context, j job) (time.Duration, error) {
			begin := time.Now()
			n, err := readPort(ctx, connect)
			if err == nil && n != j.output {
				err = fmt.Errorf("%d bytes came, and not %d", n, j.output)
			}
			return time.Since(begin), err
		}})
	}
	return nil
}

// readPort reads all that a port sends.
func readPort(ctx context.Context, connect func(context.Context) (net.Conn, error)) (int64, error) {
	conn, err := connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, 256<<10))
	if err == nil && n == 0 {
		err = errors.New("nothing came")
	}
	return n, err
}

func (p *ports) start(args []string, piped bool) (out io.Reader, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	if piped {
		if out, err = cmd.StdoutPipe(); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.owned = append(p.owned, cmd)
	return out, nil
}

// Close ends what was started on this machine. What runs in the sandbox ends with it.
func (p *ports) Close() error {
	for _, cmd := range p.owned {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
	}
	return nil
}
