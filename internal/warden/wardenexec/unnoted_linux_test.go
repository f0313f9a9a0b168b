package wardenexec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// fillDisk lets nothing be written to the journal until the function is called
// that it returns.
func fillDisk(t *testing.T, r *records) (free func()) {
	t.Helper()
	fd := int(r.journal.Fd())
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	full, err := unix.Open("/dev/full", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	put := func(other int) {
		if err := unix.Dup3(other, fd, unix.O_CLOEXEC); err != nil {
			t.Error(err)
		}
		unix.Close(other)
	}
	put(full)
	return sync.OnceFunc(func() { put(kept) })
}

// An end that the disk had no room for is recorded when there is room, and the
// warden forgets it then, whether or not anybody asks for the process any more.
func TestFullDisk(t *testing.T) {
	defer func(d time.Duration) { noteDelay = d }(noteDelay)
	noteDelay = 10 * time.Millisecond
	for name, remove := range map[string]bool{"kept": false, "removed": true} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var forgotten []string
			f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
				switch m.Type {
				case wire.Start:
					f.started(m)
				case wire.Forget:
					mu.Lock()
					forgotten = append(forgotten, m.Args...)
					mu.Unlock()
				}
				closeFDs(fds)
			})
			e := fakeExecutor(t, f.connect)
			p, err := e.Start(t.Context(), corral.Command{ID: "x", Args: []string{"x"}})
			if err != nil {
				t.Fatal(err)
			}
			free := fillDisk(t, e.records)
			defer free()
			if _, err := e.Start(t.Context(), corral.Command{ID: "refused", Args: []string{"x"}}); !errors.Is(err, corral.ErrUnavailable) ||
				corral.Hint(err) == "" || strings.Count(err.Error(), "cannot write the journal") != 1 {
				t.Errorf("a start on a full disk: %v", err)
			}
			f.exited("x")
			waitSoon(t, p)
			pollUntil(t, "the end waits to be recorded", func() bool {
				e.mu.Lock()
				defer e.mu.Unlock()
				return len(e.unnoted) == 1
			})
			time.Sleep(3 * noteDelay)
			mu.Lock()
			early := slices.Clone(forgotten)
			mu.Unlock()
			if len(early) > 0 {
				t.Fatalf("%v are forgotten, and not recorded", early)
			}
			if remove {
				if err := p.Remove(context.Background()); err == nil {
					t.Fatal("it was removed from a full disk")
				}
				free()
				if err := p.Remove(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			free()
			pollUntil(t, "the warden forgets", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return slices.Equal(forgotten, []string{"x"})
			})
			started, rec, err := e.records.find("x")
			if err != nil || started == remove || (rec != nil) == remove {
				t.Errorf("started %v, record %+v, %v", started, rec, err)
			}
		})
	}
}
