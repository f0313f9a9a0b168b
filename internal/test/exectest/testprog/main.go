//go:build linux

// The Go runtime would keep a file of the cgroup open, which "fds" would show.
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command testprog is the program that the conformance suite runs inside the
// places it tests. It does what no portable shell can: print known bytes fast,
// look at its own terminal and descriptors, leave daemons behind. Built
// without cgo it is one static file that runs in any container. It is not part
// of the product.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/corral-exec/corral/internal/test/exectest/pattern"
	"golang.org/x/sys/unix"
)

// limit is how long anything here lives: a failed test leaves nothing behind
// for good, even where the suite cannot kill it.
const limit = 60 * time.Second

var commands = map[string]func(args []string){
	"alternate":   alternate,
	"argv":        func(args []string) { printNUL(args) },
	"both":        both,
	"cwd":         cwd,
	"daemon":      daemon,
	"daemon-fork": daemonFork,
	"daemon-body": daemonBody,
	"eat":         eat,
	"emit":        emit,
	"env":         environ,
	"exit":        func(args []string) { os.Exit(number(args[0])) },
	"fds":         fds,
	"find":        find,
	"ids":         func([]string) { fmt.Println(os.Getpid(), syscall.Getpgrp(), os.Getuid()) },
	"linger":      linger,
	"linger-body": lingerBody,
	"pattern":     func(args []string) { printPattern(args, pattern.Fill) },
	"prompt":      prompt,
	"signals":     signals,
	"sleep":       func([]string) { time.Sleep(limit) },
	"stdin":       stdin,
	"text":        func(args []string) { printPattern(args, pattern.FillText) },
	"tty":         tty,
	"winch":       winch,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fail("usage: testprog COMMAND [ARG...]")
	}
	commands[os.Args[1]](os.Args[2:])
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "testprog: "+format+"\n", args...)
	os.Exit(70)
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	check(err)
	return n
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	check(err)
	return d
}

// eat takes memory until there is none.
func eat([]string) {
	fmt.Println("hungry")
	type block struct {
		bytes [4 << 20]byte
		next  *block
	}
	for all := (*block)(nil); ; {
		all = &block{next: all}
		for i := 0; i < len(all.bytes); i += 4096 {
			all.bytes[i] = 1
		}
	}
}

func printNUL(list []string) {
	var b []byte
	for _, s := range list {
		b = append(append(b, s...), 0)
	}
	_, err := os.Stdout.Write(b)
	check(err)
}

// environ prints the environment as the kernel handed it over: os.Environ hides
// what is there twice.
func environ([]string) {
	b, err := os.ReadFile("/proc/self/environ")
	check(err)
	_, err = os.Stdout.Write(b)
	check(err)
}

// printPattern: N SEED [CHUNK PAUSE] prints N bytes, CHUNK at a time.
func printPattern(args []string, fill func([]byte, uint64, int64)) {
	n, seed := number(args[0]), uint64(number(args[1]))
	chunk, pause := 256<<10, time.Duration(0)
	if len(args) > 2 {
		chunk, pause = number(args[2]), duration(args[3])
	}
	buf := make([]byte, chunk)
	for off := 0; off < n; off += chunk {
		part := buf[:min(chunk, n-off)]
		fill(part, seed, int64(off))
		_, err := os.Stdout.Write(part)
		check(err)
		time.Sleep(pause)
	}
}

// both: N prints N bytes of 'o' on standard output and of 'e' on standard
// error, a kilobyte of each in turn.
func both(args []string) {
	o := []byte(strings.Repeat("o", 1<<10))
	e := []byte(strings.Repeat("e", 1<<10))
	for n := number(args[0]); n > 0; n -= len(o) {
		part := min(n, len(o))
		_, err := os.Stdout.Write(o[:part])
		check(err)
		_, err = os.Stderr.Write(e[:part])
		check(err)
	}
}

// alternate: N prints lines "o0", "e0", "o1", … in turn on the two streams.
func alternate(args []string) {
	for i := range number(args[0]) {
		_, err := fmt.Fprintf(os.Stdout, "o%d\n", i)
		check(err)
		_, err = fmt.Fprintf(os.Stderr, "e%d\n", i)
		check(err)
	}
}

// emit: PAUSE HEX... prints the bytes, with a pause after each argument.
func emit(args []string) {
	pause := duration(args[0])
	for _, h := range args[1:] {
		b, err := hex.DecodeString(h)
		check(err)
		_, err = os.Stdout.Write(b)
		check(err)
		time.Sleep(pause)
	}
}

func cwd([]string) {
	dir, err := syscall.Getwd() // not os.Getwd, which believes $PWD
	check(err)
	fmt.Println(dir)
}

// stdin: [FILE [PAUSE]] waits until FILE exists ("-": not at all), then reads
// standard input to its end, 64 KiB at most between pauses, and prints how many
// bytes it had and their SHA-256.
func stdin(args []string) {
	fmt.Println("ready")
	if len(args) > 0 && args[0] != "-" {
		await(func() bool { _, err := os.Stat(args[0]); return err == nil })
	}
	pause := time.Duration(0)
	if len(args) > 1 {
		pause = duration(args[1])
	}
	h, total, buf := sha256.New(), 0, make([]byte, 64<<10)
	for {
		n, err := os.Stdin.Read(buf)
		h.Write(buf[:n])
		total += n
		if err == io.EOF {
			break
		}
		check(err)
		time.Sleep(pause)
	}
	fmt.Printf("%d %x\n", total, h.Sum(nil))
}

// signals prints the number of each signal as it comes and ends with USR2.
func signals([]string) {
	got := make(chan os.Signal, 100)
	signal.Notify(got)
	fmt.Println("ready")
	timeout := time.After(limit)
	for {
		select {
		case s := <-got:
			n := s.(syscall.Signal)
			if n == syscall.SIGURG || n == syscall.SIGCHLD {
				continue // the Go runtime's own
			}
			fmt.Println(int(n))
			if n == syscall.SIGUSR2 {
				return
			}
		case <-timeout:
			return
		}
	}
}

func fds([]string) {
	// Opened by hand, so that the descriptor of the directory can be left out.
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(err)
	buf := make([]byte, 64<<10)
	var names []string
	for {
		n, err := unix.ReadDirent(dir, buf)
		check(err)
		if n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	var open []int
	for _, name := range names {
		if fd := number(name); fd != dir && !poller(fd) {
			open = append(open, fd)
		}
	}
	sort.Ints(open)
	for _, fd := range open {
		fmt.Println(fd)
	}
}

// poller reports whether fd is one that the Go runtime made for itself.
func poller(fd int) bool {
	to, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return err == nil && fd > 2 && (strings.Contains(to, "[eventpoll]") || strings.Contains(to, "[eventfd]"))
}

// tty prints, for 0, 1 and 2, whether each is a terminal; the size and name of
// the first; and whether it is the controlling terminal.
func tty([]string) {
	for fd := range 3 {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		fmt.Printf("tty%d=%v\n", fd, err == nil)
	}
	printSize()
	name, err := os.Readlink("/proc/self/fd/0")
	check(err)
	fmt.Println("name=" + name)
	f, err := os.Open("/dev/tty")
	fmt.Println("controlling=" + strconv.FormatBool(err == nil))
	if err == nil {
		check(f.Close())
	}
}

func printSize() {
	ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
	if err != nil {
		fmt.Println("size=none")
		return
	}
	fmt.Printf("size=%dx%d\n", ws.Row, ws.Col)
}

// winch prints the terminal's size now and on every SIGWINCH, and ends with
// its input.
func winch([]string) {
	changed := make(chan os.Signal, 10)
	signal.Notify(changed, syscall.SIGWINCH)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // a hang-up ends it as well
		close(ended)
	}()
	printSize()
	timeout := time.After(limit)
	for {
		select {
		case <-changed:
			printSize()
		case <-ended:
			return
		case <-timeout:
			return
		}
	}
}

// prompt: AFTER reads as a line editor does: after that time it takes keys one by
// one, without those that came before, until one says that the input has ended.
func prompt(args []string) {
	time.Sleep(duration(args[0]))
	was, err := unix.IoctlGetTermios(0, unix.TCGETS)
	check(err)
	keys := *was
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
	check(unix.IoctlSetTermios(0, unix.TCSETSF, &keys))
	fmt.Println("prompt")
	time.AfterFunc(limit, func() { fail("nobody ended the input") })
	for key := make([]byte, 1); key[0] != was.Cc[unix.VEOF]; {
		_, err := os.Stdin.Read(key)
		check(err)
	}
	fmt.Println("end")
	check(unix.IoctlSetTermios(0, unix.TCSETSF, was))
}

func await(ok func() bool) {
	for end := time.Now().Add(limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			fail("waited %v in vain", limit)
		}
	}
}
