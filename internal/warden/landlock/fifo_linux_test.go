package landlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A FIFO that has the name of a script that was deleted is not waited for.
func TestDeletedScriptBesideFIFO(t *testing.T) {
	dir := t.TempDir() + "/"
	script := filepath.Join(dir, "x")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(script)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(os.Remove(script), unix.Mkfifo(script+" (deleted)", 0o600)); err != nil {
		t.Fatal(err)
	}
	name := append([]byte(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())), 0)
	j := &Jail{rules: &ruleset{directories: []string{dir}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.lookAt(&notification{pid: uint32(os.Getpid())}, unix.AT_FDCWD, uint64(uintptr(unsafe.Pointer(&name[0]))))
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("the watch waits for who writes to the FIFO")
		w, err := os.OpenFile(script+" (deleted)", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		<-done
	}
	runtime.KeepAlive(name)
}
