//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
)

// openSSH is a server and a client of OpenSSH on loopback, with one connection
// that jobs share. It reads no file of the user's or the machine's and changes
// none: its keys and settings are in a directory of its own.
type openSSH struct {
	dir  string
	user string
	port int

	listener net.Listener
	master   *exec.Cmd // the client that holds the connection
	said     said
	chroot   bool // chrootDir was made

	servers context.Context
	kill    context.CancelFunc
	owned   sync.WaitGroup
}

// chrootDir is an empty directory that sshd insists on, and its service makes.
const chrootDir = "/run/sshd"

const sshdSettings = `
HostKey %[1]s/host
AuthorizedKeysFile %[1]s/user.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitUserRC no
PrintMotd no
PrintLastLog no
PidFile none
`

const sshHint = "install openssh-server and openssh-client: e2e/setup.sh bench"

// startSSH makes a directory for it and connects.
func startSSH(ctx context.Context, dir string) (_ *openSSH, err error) {
	s := &openSSH{dir: dir}
	s.servers, s.kill = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%w: %s", err, s.said.String()), s.Close())
		}
	}()
	who, err := user.Current()
	if err != nil {
		return nil, err
	}
	s.user = who.Username
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	// It wants to be called by its whole name, and is often not on PATH.
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, sshHint, "cannot compare with OpenSSH: %w", err)
	}
	switch err := os.Mkdir(chrootDir, 0o755); {
	case err == nil:
		s.chroot = true
	case !errors.Is(err, fs.ErrExist):
		return nil, err
	}
	for _, name := range []string{"host", "user"} {
		if err := s.command(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name).Run(); err != nil {
			return nil, corral.Errorf(corral.ErrUnavailable, sshHint, "cannot make a key: %w", err)
		}
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.port = s.listener.Addr().(*net.TCPAddr).Port
	host, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"settings": fmt.Sprintf(sshdSettings, dir),
		"known":    fmt.Sprintf("[127.0.0.1]:%d %s", s.port, host),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	s.owned.Go(func() { s.accept(sshd) })
	return s, s.connect(ctx)
}

func (s *openSSH) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = s.dir, &s.said
	return c
}

// accept starts a server for each connection, as inetd would: so its port is
// nobody else's.
func (s *openSSH) accept(sshd string) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // it was closed
		}
		file, err := conn.(*net.TCPConn).File()
		if err != nil {
			fmt.Fprintln(&s.said, err)
			_ = conn.Close() // the client reports it
			continue
		}
		c := s.command(s.servers, sshd, "-i", "-e", "-f", filepath.Join(s.dir, "settings"))
		c.Stdin, c.Stdout = file, file
		err = c.Start()
		_, _ = conn.Close(), file.Close() // they are the server's
		if err != nil {
			fmt.Fprintln(&s.said, err)
			continue
		}
		s.owned.Go(func() {
			if err := c.Wait(); err != nil {
				fmt.Fprintln(&s.said, "sshd:", err)
			}
		})
	}
}

// client is an ssh with those arguments before the host.
func (s *openSSH) client(ctx context.Context, args []string, command ...string) *exec.Cmd {
	all := []string{"-F", "none", "-p", fmt.Sprint(s.port), "-l", s.user}
	for _, o := range []string{
		"BatchMode=yes", "ControlPath=connection", "IdentityFile=user", "IdentitiesOnly=yes", "IdentityAgent=none",
		"UserKnownHostsFile=known", "GlobalKnownHostsFile=none", "StrictHostKeyChecking=yes", "LogLevel=ERROR",
	} {
		all = append(all, "-o", o)
	}
	return s.command(ctx, "ssh", append(append(append(all, args...), "127.0.0.1"), command...)...)
}

// connect makes the connection that jobs share, as those of a node share one.
func (s *openSSH) connect(ctx context.Context) error {
	s.master = s.client(context.WithoutCancel(ctx), []string{"-M", "-N"})
	if err := s.master.Start(); err != nil {
		s.master = nil
		return corral.Errorf(corral.ErrUnavailable, sshHint, "cannot compare with OpenSSH: %w", err)
	}
	var err error
	for end := time.Now().Add(readyLimit); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if err = s.client(ctx, []string{"-O", "check"}).Run(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("ssh does not connect: %w", err)
}

// run runs a job whose output is to be read.
func (s *openSSH) run(ctx context.Context, j job) (time.Duration, error) {
	command := ""
	for _, a := range j.argv() {
		command += " '" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	start := time.Now()
	c := s.client(ctx, []string{"-n", "-T"}, command)
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{out}, make([]byte, pieceSize))
	err = errors.Join(err, c.Wait())
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%v: %w: %s", j, err, s.said.String())
	}
	return took, errors.Join(checkOutput(j, n), checkSum(j, sum))
}

// Close ends the connection and the server.
func (s *openSSH) Close() error {
	var errs []error
	if s.master != nil {
		errs = append(errs, s.master.Process.Kill())
		_ = s.master.Wait() // it was killed
	}
	if s.listener != nil {
		errs = append(errs, s.listener.Close())
	}
	late := time.AfterFunc(discardLimit, s.kill) // servers end with their connections
	s.owned.Wait()
	late.Stop()
	s.kill()
	if s.chroot {
		errs = append(errs, os.Remove(chrootDir))
	}
	return errors.Join(errs...)
}
