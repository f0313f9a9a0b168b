//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// daemon: MARK PIDFILE keep|clear hold|close stay|leave
//
// It leaves a daemon behind as init scripts do, by forking twice with a new
// session each time. The daemon ignores TERM, HUP and INT and has MARK among
// its arguments for find. "clear" empties its environment; "close" takes its
// standard streams away, "hold" keeps them. Once it runs, daemon prints
// "ready" and stays or leaves.
func daemon(args []string) {
	fork(append([]string{"daemon-fork"}, args...), args[2] == "clear", args[3] == "close", true)
	await(func() bool { _, err := os.Stat(args[1]); return err == nil })
	fmt.Println("ready")
	if args[4] == "stay" {
		time.Sleep(limit)
	}
}

func daemonFork(args []string) {
	fork(append([]string{"daemon-body"}, args...), args[2] == "clear", args[3] == "close", false)
}

func daemonBody(args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	writeFile(args[1], strconv.Itoa(os.Getpid()))
	time.Sleep(limit)
}

// fork starts this program again in a new session.
func fork(args []string, clearEnv, closeStreams, wait bool) {
	attr := &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if clearEnv {
		attr.Env = []string{}
	}
	if closeStreams {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		check(err)
		attr.Files = []*os.File{null, null, null}
	}
	p, err := os.StartProcess(os.Args[0], append([]string{os.Args[0]}, args...), attr)
	check(err)
	if wait {
		_, err = p.Wait()
		check(err)
	}
}

// linger: FILE N HOLD leaves a child behind that keeps standard output open
// without writing for HOLD, then writes N bytes to it, and then says in FILE
// that it could.
func linger(args []string) {
	attr := &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}}
	_, err := os.StartProcess(os.Args[0], append([]string{os.Args[0], "linger-body", strconv.Itoa(os.Getpid())}, args...), attr)
	check(err)
	await(func() bool { _, err := os.Stat(args[0] + ".up"); return err == nil })
	fmt.Println("bye")
}

func lingerBody(args []string) {
	parent, file, n, hold := number(args[0]), args[1], number(args[2]), duration(args[3])
	writeFile(file+".up", "")
	await(func() bool { return os.Getppid() != parent })
	time.Sleep(hold)
	block := bytes.Repeat([]byte("late\n"), 1000)
	for written := 0; written < n; written += len(block) {
		if _, err := os.Stdout.Write(block); err != nil {
			writeFile(file, err.Error())
			return
		}
	}
	writeFile(file, "wrote all")
}

// writeFile makes the file appear with its content.
func writeFile(path, text string) {
	check(os.WriteFile(path+".tmp", []byte(text), 0o644))
	check(os.Rename(path+".tmp", path))
}

// find: MARK prints how many instances of this program other than searches
// have that very argument.
func find(args []string) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	check(err)
	count := 0
	for _, dir := range dirs {
		cmdline, err := os.ReadFile(dir + "/cmdline")
		if err != nil {
			continue // ended in between
		}
		argv := bytes.Split(cmdline, []byte{0})
		if len(argv) < 2 || filepath.Base(string(argv[0])) != filepath.Base(os.Args[0]) || string(argv[1]) == "find" {
			continue
		}
		for _, a := range argv[2:] {
			if string(a) == args[0] {
				count++
			}
		}
	}
	fmt.Println(count)
}
