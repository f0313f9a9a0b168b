package testnet

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Net is a network of hosts.
type Net struct {
	tb    testing.TB
	owned sync.WaitGroup

	mu     sync.Mutex
	closed bool
	hosts  map[netip.Addr]*Host
	wires  map[[2]*Host]Wire
	count  int
}

// A Wire is what happens to packets between two hosts, in each direction.
type Wire struct {
	Delay  time.Duration
	Jitter time.Duration // at most; packets overtake each other
	Loss   float64       // of 1
	Cut    bool          // nothing arrives, without an error
}

// A Host is a machine of a Net.
type Host struct {
	net  *Net
	name string
	ns   string // the namespace
	dev  string
	tun  *os.File
	addr netip.Addr // guarded by net.mu
}

// New makes a network without hosts. It ends with the test. What is left of tests
// that were killed is removed first.
func New(tb testing.TB) *Net {
	tb.Helper()
	sweep(tb)
	n := &Net{tb: tb, hosts: map[netip.Addr]*Host{}, wires: map[[2]*Host]Wire{}}
	tb.Cleanup(n.close)
	return n
}

// namespaceName is that of a host's namespace, by the process whose it is.
const namespaceName = "corral-%d-%d"

// sweep removes the namespaces of processes that are gone.
func sweep(tb testing.TB) {
	tb.Helper()
	list, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		tb.Fatal(err)
	}
	for _, e := range list {
		var pid, count int
		if _, err := fmt.Sscanf(e.Name(), namespaceName, &pid, &count); err != nil || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		if out, err := exec.Command("ip", "netns", "del", e.Name()).CombinedOutput(); err != nil {
			tb.Logf("cannot remove a network that is left: %s", out) // another test may be faster
		}
	}
}

// close ends the network. Programs on its hosts have ended by then.
func (n *Net) close() {
	n.mu.Lock()
	n.closed = true
	hosts := n.hosts
	n.hosts = map[netip.Addr]*Host{}
	n.mu.Unlock()
	for _, h := range hosts {
		h.tun.Close()
		h.run("ip", "netns", "del", h.ns)
	}
	n.owned.Wait()
}

// Host makes a host with an IPv4 address, such as 10.77.0.1; all are in one /16.
func (n *Net) Host(name, address string) *Host {
	n.tb.Helper()
	n.mu.Lock()
	n.count++
	h := &Host{
		net: n, name: name, addr: netip.MustParseAddr(address),
		ns: fmt.Sprintf(namespaceName, os.Getpid(), n.count), dev: fmt.Sprintf("ct%d-%d", os.Getpid()%1_000_000, n.count),
	}
	n.mu.Unlock()
	h.run("ip", "netns", "add", h.ns)
	var err error
	if h.tun, err = openTUN(h.dev); err != nil {
		h.run("ip", "netns", "del", h.ns)
		n.tb.Fatalf("making the network device of %s: %v", name, err)
	}
	n.mu.Lock()
	n.hosts[h.addr] = h // from here on close removes it
	n.mu.Unlock()
	h.run("ip", "link", "set", h.dev, "netns", h.ns)
	h.run("ip", "-n", h.ns, "link", "set", "lo", "up")
	h.run("ip", "-n", h.ns, "link", "set", h.dev, "mtu", "1400", "up")
	h.run("ip", "-n", h.ns, "addr", "add", address+"/16", "dev", h.dev)
	n.owned.Go(h.forward)
	return h
}

// openTUN makes a device of packets without a header of its own.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "/dev/net/tun"), nil
}

// Wire says what happens between two hosts from now on.
func (n *Net) Wire(a, b *Host, w Wire) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wires[[2]*Host{a, b}], n.wires[[2]*Host{b, a}] = w, w
}

// Cut says whether anything arrives from or at a host.
func (n *Net) Cut(h *Host, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.hosts {
		for _, pair := range [][2]*Host{{h, other}, {other, h}} {
			w := n.wires[pair]
			w.Cut = cut
			n.wires[pair] = w
		}
	}
}

// Addr is the address of a host.
func (h *Host) Addr() netip.Addr {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.addr
}

// Move gives a host another address. What was connected to the old one is never
// told.
func (h *Host) Move(address string) {
	h.net.tb.Helper()
	to := netip.MustParseAddr(address)
	h.net.mu.Lock()
	delete(h.net.hosts, h.addr)
	old := h.addr
	h.addr = to
	h.net.hosts[to] = h
	h.net.mu.Unlock()
	h.run("ip", "-n", h.ns, "addr", "del", old.String()+"/16", "dev", h.dev)
	h.run("ip", "-n", h.ns, "addr", "add", address+"/16", "dev", h.dev)
}

func (h *Host) run(name string, args ...string) {
	h.net.tb.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		h.net.tb.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// Command is a program that is to run on the host.
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", h.ns, name}, args...)...)
}

// forward moves what a host sends.
func (h *Host) forward() {
	for buf := make([]byte, 64<<10); ; {
		k, err := h.tun.Read(buf)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) && !errors.Is(err, io.EOF) && !errors.Is(err, unix.EBADFD) {
				h.net.tb.Errorf("reading what %s sends: %v", h.name, err)
			}
			return
		}
		if p := buf[:k]; k >= 20 && p[0]>>4 == 4 {
			h.net.deliver(h, netip.AddrFrom4([4]byte(p[16:20])), p)
		}
	}
}

func (n *Net) deliver(from *Host, dst netip.Addr, p []byte) {
	n.mu.Lock()
	to := n.hosts[dst]
	w := n.wires[[2]*Host{from, to}]
	n.mu.Unlock()
	if to == nil || w.Cut || w.Loss > 0 && rand.Float64() < w.Loss { //nolint:gosec // no secret
		return
	}
	wait := w.Delay
	if w.Jitter > 0 {
		wait += rand.N(w.Jitter) //nolint:gosec // no secret
	}
	if wait == 0 {
		to.write(p)
		return
	}
	late := append([]byte(nil), p...)
	n.owned.Add(1)
	time.AfterFunc(wait, func() {
		defer n.owned.Done()
		to.write(late)
	})
}

// write hands a packet to a host. One that its queue has no room for is lost, as
// anywhere.
func (h *Host) write(p []byte) {
	_, _ = h.tun.Write(p)
}

// Do calls f on a thread that is on the host: sockets that f makes belong to
// it. f starts no goroutines that make some.
func (h *Host) Do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		done <- func() error {
			ns, err := os.Open("/run/netns/" + h.ns)
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("cannot go to %s: %w", h.name, err)
			}
			return f()
		}()
	}()
	return <-done
}

// Listen listens on the host.
func (h *Host) Listen(port int) (l net.Listener, err error) {
	at := netip.AddrPortFrom(h.Addr(), uint16(port)) //nolint:gosec // a port
	err = h.Do(func() error {
		l, err = net.Listen("tcp4", at.String())
		return err
	})
	return l, err
}

// Dial connects from the host.
func (h *Host) Dial(address string, limit time.Duration) (c net.Conn, err error) {
	err = h.Do(func() error {
		c, err = net.DialTimeout("tcp4", address, limit)
		return err
	})
	return c, err
}
