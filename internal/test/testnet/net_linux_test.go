//go:build e2e

package testnet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers on a host with what it hears.
func echo(t *testing.T, h *Host) {
	t.Helper()
	l, err := h.Listen(7)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	conns := []io.Closer{l}
	t.Cleanup(func() {
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() { _, _ = io.Copy(c, c) })
		}
	})
}

func roundTrip(c net.Conn, limit time.Duration) (time.Duration, error) {
	began := time.Now()
	if err := c.SetDeadline(began.Add(limit)); err != nil {
		return 0, err
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return 0, err
	}
	_, err := c.Read(make([]byte, 1))
	return time.Since(began), err
}

// arrive is how many of some datagrams from one host to another get there.
func arrive(t *testing.T, from, to *Host, count int) (n int) {
	t.Helper()
	var in net.PacketConn
	var out net.Conn
	err := errors.Join(
		to.Do(func() (err error) {
			in, err = net.ListenPacket("udp4", to.Addr().String()+":7")
			return err
		}),
		from.Do(func() (err error) {
			out, err = net.Dial("udp4", to.Addr().String()+":7")
			return err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	counted := make(chan int)
	go func() {
		n := 0
		for ; in.SetReadDeadline(time.Now().Add(time.Second)) == nil; n++ {
			if _, _, err := in.ReadFrom(make([]byte, 1)); err != nil {
				break
			}
		}
		counted <- n
	}()
	for range count {
		if _, err := out.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond) // no queue gets full
	}
	return <-counted
}

func TestNet(t *testing.T) {
	n := New(t)
	a, b := n.Host("a", "10.77.0.1"), n.Host("b", "10.77.0.2")
	echo(t, b)
	c, err := a.Dial("10.77.0.2:7", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := roundTrip(c, 5*time.Second); err != nil {
		t.Error(err)
	}
	n.Wire(a, b, Wire{Delay: 100 * time.Millisecond})
	if took, err := roundTrip(c, 5*time.Second); err != nil || took < 200*time.Millisecond {
		t.Errorf("over a slow wire: %v, %v", took, err)
	}
	n.Wire(a, b, Wire{Loss: 0.5})
	if got := arrive(t, a, b, 400); got < 100 || got > 300 {
		t.Errorf("%d datagrams of 400 arrived over a wire that loses half", got)
	}
	n.Wire(a, b, Wire{Loss: 0.1}) // more than that TCP takes minutes for, now and then
	for range 5 {
		if _, err := roundTrip(c, 60*time.Second); err != nil {
			t.Errorf("over a lossy wire: %v", err)
		}
	}
	n.Wire(a, b, Wire{})
	n.Cut(b, true)
	if took, err := roundTrip(c, 300*time.Millisecond); err == nil {
		t.Errorf("over a cut wire, in %v", took)
	}
	n.Cut(b, false)
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("what was said during the cut: %v", err)
	}
	b.Move("10.77.0.3")
	if took, err := roundTrip(c, 300*time.Millisecond); err == nil {
		t.Errorf("to an address that nobody has, in %v", took)
	}
	out, err := a.Command("ip", "-br", "addr").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "10.77.0.1/16") {
		t.Errorf("%s: %v", out, err)
	}
}

// Nothing of a network is left when its test is over, and what was left of one
// that was killed is removed by the next.
func TestNothingLeft(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	killed := fmt.Sprintf(namespaceName, gone.Process.Pid, 1)
	if out, err := exec.Command("ip", "netns", "add", killed).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	t.Run("network", func(t *testing.T) { New(t).Host("a", "10.77.0.1") })
	out, err := exec.Command("ip", "netns", "list").CombinedOutput()
	if mine := fmt.Sprintf("corral-%d-", os.Getpid()); err != nil || strings.Contains(string(out), mine) || strings.Contains(string(out), killed) {
		t.Errorf("%s: %v", out, err)
	}
}
