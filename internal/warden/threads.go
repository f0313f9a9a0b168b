//go:build linux

package warden

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// A sandbox may have only so many processes and threads, and its commands can
// take all but those that are there already. Then the Go runtime cannot make a
// thread when it wants one, and ends the program: for PID 1, and all that runs
// beside it, that is the end. It wants one when goroutines are in system calls
// and another could run; it keeps those that it has. So this program has from
// the start as many as it can want at a time.

// threads is how many. There are the runtime's monitor, one that waits for
// signals and one that waits for children; goroutines that make processes (see begin),
// one that looks for gateways, and lookers that look for processes can be in
// system calls beside the one that runs; the rest are for calls that are short.
const threads = 10 + moreProcessors

// lookers is how many goroutines look for the processes of a command at a time,
// of all that may want to: hundreds of commands can end in a moment.
const lookers = 2

// reserveThreads has the runtime make threads: each of a number of goroutines
// waits in a system call until the last does.
func reserveThreads() error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("cannot reserve threads: %w", err)
	}
	const besides = 2 // the one that runs this, and the runtime's monitor
	var waiting, done sync.WaitGroup
	for range threads - besides {
		waiting.Add(1)
		done.Go(func() {
			waiting.Done()
			_, _ = unix.Read(p[0], make([]byte, 1)) // until its end
		})
	}
	waiting.Wait()
	unix.Close(p[1])
	done.Wait()
	unix.Close(p[0])
	return nil
}
