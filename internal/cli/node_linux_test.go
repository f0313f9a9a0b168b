package cli

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Systemd is told when the node has begun, how it is, and when it stops.
func TestNodeTellsSystemd(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	program, err := exec.LookPath("corral")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "node", "--gateway", "corral://127.0.0.1:1/UBPLOYDDEJ36JKKK4D7OJQG3QRQXLNKPZN5DPS2HUBSXX76HLK77ZFK2/system")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "CORRAL_STATE_DIR="+dir, "HOME="+dir, "XDG_CONFIG_HOME="+dir, "SHELL=/bin/sh", "GORACE="+raceOptions)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // the first time tells
	defer cmd.Process.Kill()
	buf := make([]byte, 1000)
	for _, want := range []string{"READY=1", "STATUS=connecting", "STATUS=connecting: cannot connect to the gateway at 127.0.0.1:1: nobody listens there", "STOPPING=1"} {
		if want == "STOPPING=1" {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		if err != nil || strings.TrimSpace(string(buf[:n])) != want {
			t.Errorf("systemd was told %q, %v, want %s", buf[:n], err, want)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
