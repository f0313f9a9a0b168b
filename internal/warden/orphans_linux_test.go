package warden

import (
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What was made after a command is found without a list of everything, and a thread
// is no process.
func TestYounger(t *testing.T) {
	start := func() *exec.Cmd {
		c := exec.Command("sleep", "60")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		return c
	}
	first := start()
	p := &proc{pid: first.Process.Pid, ticks: ticks()}
	thread := make(chan int)
	hold := make(chan struct{})
	defer close(hold)
	for range 3 {
		go func() {
			runtime.LockOSThread() // with its end the thread ends too
			thread <- unix.Gettid()
			<-hold
		}()
	}
	second := start()
	tids := []int{<-thread, <-thread, <-thread}
	if i := slices.IndexFunc(tids, isThread); i < 0 {
		t.Errorf("none of %v is a thread beside the first", tids)
	}
	tasks, known := younger(p)
	if !known {
		t.Fatal("not known, a moment after the command")
	}
	var pids []int
	for _, task := range tasks {
		pids = append(pids, task.PID)
	}
	if !slices.Contains(pids, second.Process.Pid) || slices.Contains(pids, p.pid) {
		t.Errorf("%v has no %d, or has the command's own %d", pids, second.Process.Pid, p.pid)
	}
	for _, tid := range tids {
		if slices.Contains(pids, tid) && isThread(tid) {
			t.Errorf("%v has the thread %d", pids, tid)
		}
	}
	for name, old := range map[string]proc{
		"a command of two seconds ago":  {pid: p.pid, ticks: ticks() - 200},
		"one that many were made after": {pid: p.pid - 300, ticks: ticks()},
		"numbers began anew":            {pid: 1 << 30, ticks: ticks()},
	} {
		if _, known := younger(&old); known {
			t.Errorf("%s: known", name)
		}
	}
}
