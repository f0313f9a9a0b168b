package probes

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/escape"
)

// A nest is all that a canary lays out.
type nest struct {
	escape.Process
	secret []byte

	mu  sync.Mutex
	out io.Writer

	undo []func() error
}

// canary is a process of the host to be found. It ends with its standard input.
func canary(args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("canary", flag.ContinueOnError)
	user := fs.String("user", "", "`UID:GID` to become")
	listen := fs.String("listen", "loopback", "loopback or all addresses")
	if err := fs.Parse(args); err != nil {
		return err
	}
	n := &nest{secret: []byte(os.Getenv(escape.CanaryVar)), out: stdout}
	if len(n.secret) == 0 || *listen != "loopback" && *listen != "all" {
		return errUsage
	}
	if err := become(*user); err != nil {
		return fmt.Errorf("cannot become the user %s: %w", *user, err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	go func() {
		for range signals {
			n.touched("signal")
		}
	}()
	n.PID, n.Variable = os.Getpid(), escape.CanaryVar
	n.Memory, n.Length = uint64(uintptr(unsafe.Pointer(&n.secret[0]))), len(n.secret)
	err := errors.Join(n.listen(*listen == "all"), n.share())
	if err == nil {
		err = n.say(n.Process)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	for _, undo := range n.undo {
		err = errors.Join(err, undo())
	}
	return err
}

// become gives up root, and stays a process that others of its user can look at.
func become(user string) error {
	if user == "" || os.Geteuid() != 0 {
		return nil
	}
	var uid, gid int
	if _, err := fmt.Sscanf(user, "%d:%d", &uid, &gid); err != nil {
		return err
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
}

func (n *nest) say(v any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return json.NewEncoder(n.out).Encode(v)
}

// touched tells the program that started this what was done. If nobody hears it, this
// process is about to end.
func (n *nest) touched(what string) { _ = n.say(what) }

func (n *nest) listen(all bool) error {
	host := "127.0.0.1"
	if all {
		host = "0.0.0.0"
	}
	tcp, err := net.Listen("tcp4", host+":0")
	if err != nil {
		return err
	}
	port := tcp.Addr().(*net.TCPAddr).Port
	n.TCP = []string{fmt.Sprintf("127.0.0.1:%d", port)}
	if all {
		n.TCP = append(n.TCP, others(port)...)
	}
	go n.serve(tcp)
	abstract := "corral-escape-" + fmt.Sprint(rand.Uint64())
	l, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		return err
	}
	n.Abstract = abstract
	go n.serve(l)
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n.UDP = udp.LocalAddr().String()
	go func() {
		b := make([]byte, 512)
		for {
			_, from, err := udp.ReadFrom(b)
			if err != nil {
				return // closed with this process
			}
			n.touched("udp")
			_, _ = udp.WriteTo(n.secret, from) // whoever asks may be gone
		}
	}()
	return nil
}

// others are the host's addresses beside loopback, with a port.
func others(port int) []string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var list []string
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			list = append(list, fmt.Sprintf("%v:%d", ip.IP, port))
		}
	}
	return list
}

func (n *nest) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed with this process
		}
		n.touched(l.Addr().Network())
		_, _ = conn.Write(n.secret) // whoever asks may be gone
		conn.Close()
	}
}

// share lays out what processes share other than by files and networks. What the
// machine does not have is left out.
func (n *nest) share() error {
	defer unix.Umask(unix.Umask(0))
	name := "corral-escape-" + fmt.Sprint(rand.Uint64())
	key := int(rand.Int32()) | 1
	if id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666); err == nil {
		n.undo = append(n.undo, func() error {
			_, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil)
			return err
		})
		b, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return err
		}
		copy(b, n.secret)
		n.Shm = key
	}
	if fd, err := openQueue(name, unix.O_CREAT|unix.O_RDWR, 0o666); err == nil {
		unix.Close(fd)
		n.undo = append(n.undo, func() error { return removeQueue(name) })
		n.Queue = name
	}
	file := "/dev/shm/" + name
	if err := os.WriteFile(file, n.secret, 0o644); err == nil {
		n.undo = append(n.undo, func() error { return os.Remove(file) })
		n.ShmFile = file
	}
	return n.keep(name)
}

// keep puts the secret into the keyring of the user.
func (n *nest) keep(name string) error {
	id, err := unix.AddKey("user", name, n.secret, unix.KEY_SPEC_USER_KEYRING)
	if err != nil {
		return nil //nolint:nilerr // a kernel without keys
	}
	n.undo = append(n.undo, func() error {
		_, err := unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0)
		return err
	})
	const all = 0x3f3f0000 // for the possessor and the user
	if err := unix.KeyctlSetperm(id, all); err != nil {
		return err
	}
	n.Key = name
	return nil
}

func removeQueue(name string) error {
	b, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(b)), 0, 0)
	return errnoErr(errno)
}

// serveMetadata is a metadata service in a network of one's own.
func serveMetadata() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := lo.SetInet4Addr([]byte{169, 254, 169, 254}); err != nil {
		return err
	}
	if err := ioctlIfreq(fd, unix.SIOCSIFADDR, lo); err != nil {
		return fmt.Errorf("cannot have the address 169.254.169.254: %w", err)
	}
	l, err := net.Listen("tcp4", "169.254.169.254:80")
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed with this process
			}
			_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\n\r\nami-id\n") // whoever asks may be gone
			conn.Close()
		}
	}()
	return nil
}
