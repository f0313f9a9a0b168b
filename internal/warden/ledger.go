//go:build linux

package warden

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// A ledger is a file in which a supervisor on a host notes what it runs, for
// the one after it: if it is killed, that one finds the commands, and knows how
// much time each had. It is locked while its supervisor lives. Nothing is synced: a
// power cut ends the commands as well.
//
// A command has a slot of its own from before it is made until it has ended: a
// length, a checksum (CRC-32C), and an entry, written at once. An entry is a
// wire.Message (see entryOf).
type ledger struct {
	logf func(format string, args ...any)
	boot string

	mu    sync.Mutex
	f     *os.File // nil: there is none
	free  []int64
	slots int64
	used  int
	full  bool // it could not be written, which was logged
	other bool // it was another's, and goes with its last entry
}

const (
	ledgerPrefix = "commands-"
	// slotSize is room for the largest tag and the rest of an entry, in bytes.
	slotSize   = 12 << 10
	slotHeader = 8
	// maxSlots bounds how much of a ledger is read.
	maxSlots = 1 << 16
	noSlot   = -1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openLedger makes a ledger in a directory; without one there is none.
func openLedger(dir string, since uint64, logf func(string, ...any)) (*ledger, error) {
	l := &ledger{logf: logf, boot: bootID()}
	if dir == "" {
		return l, nil
	}
	name := filepath.Join(dir, fmt.Sprintf("%s%d-%d", ledgerPrefix, os.Getpid(), since))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot note which commands run: %w", err)
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", name, err), os.Remove(name))
	}
	l.f = f
	return l, nil
}

func lockFile(f *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
}

// note writes an entry, and returns its slot; again writes another into a slot.
func (l *ledger) note(e *wire.Message, again int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return noSlot
	}
	slot := again
	if slot == noSlot {
		if n := len(l.free); n > 0 {
			slot, l.free = l.free[n-1], l.free[:n-1]
		} else {
			slot = l.slots
			l.slots++
		}
		l.used++
	}
	b := e.Append(make([]byte, slotHeader, 1<<10))
	binary.LittleEndian.PutUint32(b, uint32(len(b)-slotHeader))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[slotHeader:], castagnoli))
	err := error(nil)
	if len(b) > slotSize {
		err = fmt.Errorf("it has %d bytes", len(b))
	} else {
		_, err = l.f.WriteAt(b, slot*slotSize)
	}
	if err != nil && !l.full {
		l.full = true
		l.logf("cannot note that command %s runs; if this warden is killed, its time-out is not enforced: %v", e.ID, err)
	}
	return slot
}

// clear frees a slot.
func (l *ledger) clear(slot int64) {
	if slot == noSlot {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return
	}
	if _, err := l.f.WriteAt(make([]byte, slotHeader), slot*slotSize); err != nil && !l.full {
		l.full = true
		l.logf("cannot note that a command has ended: %v", err)
	}
	l.free = append(l.free, slot)
	l.used--
	if l.other && l.used == 0 {
		l.closeLocked()
	}
}

// close lets go of the ledger, and removes it if it has no entry.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked()
}

func (l *ledger) closeLocked() {
	if l.f == nil {
		return
	}
	if l.used == 0 {
		_ = os.Remove(l.f.Name()) // its directory may be gone
	}
	l.f.Close()
	l.f = nil
}

// entries reads a ledger. What is damaged is left out, and counted.
func entries(f *os.File) (list map[int64]*wire.Message, damaged int, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	list = map[int64]*wire.Message{}
	b := make([]byte, slotSize)
	for slot := range min((info.Size()+slotSize-1)/slotSize, maxSlots) {
		n, err := f.ReadAt(b, slot*slotSize)
		e, derr := decodeSlot(b[:n])
		switch {
		case n == 0 && err != nil:
			return list, damaged, err
		case derr != nil:
			damaged++
		case e != nil:
			list[slot] = e
		}
	}
	return list, damaged, nil
}

var errDamaged = errors.New("the entry is damaged")

// decodeSlot is nil for a slot that is free.
func decodeSlot(b []byte) (*wire.Message, error) {
	if len(b) < slotHeader {
		return nil, errDamaged
	}
	size := int64(binary.LittleEndian.Uint32(b))
	if size == 0 && binary.LittleEndian.Uint32(b[4:]) == 0 {
		return nil, nil
	}
	if size > int64(len(b)-slotHeader) {
		return nil, errDamaged
	}
	body := b[slotHeader : slotHeader+size]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, errDamaged
	}
	e, err := wire.Parse(body)
	if err != nil {
		return nil, err
	}
	if e.ID == "" || len(e.ID) > 64 || strings.ContainsAny(e.ID, "/\x00") || len(e.Tag) > wire.MaxTag || e.PID > 1<<31-1 {
		return nil, errDamaged
	}
	return e, nil
}

// is reports whether it is the ledger of that name.
func (l *ledger) is(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f != nil && l.f.Name() == name
}

// orphaned opens the ledgers in a directory whose supervisors are gone, but for those of
// this one.
func orphaned(dir string, lock bool, own ...*ledger) (files []*os.File) {
	names, _ := filepath.Glob(filepath.Join(dir, ledgerPrefix+"*"))
	slices.Sort(names)
	for _, name := range names {
		if slices.ContainsFunc(own, func(l *ledger) bool { return l.is(name) }) {
			continue
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue // its supervisor has ended, or another took it over
		}
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), ledgerPrefix), "-")
		if info, err := f.Stat(); err != nil || info.Size() == 0 && !isDying(pid) { // perhaps it is about to be locked
			f.Close()
			continue
		}
		take := looksFree
		if lock {
			take = lockFile
		}
		if err := takeOnceDead(f, take, func() string { return pid }); err != nil {
			f.Close()
			continue
		}
		files = append(files, f)
	}
	return files
}

// dying is how long the end of a process may take.
const dying = 2 * time.Second

// takeOnceDead takes a lock. If its holder, a process ID, is at its end, it waits for that: the
// lock may be the last to go, and a child that was about to execute a program has it, too.
func takeOnceDead(f *os.File, take func(*os.File) error, holder func() string) error {
	for end := time.Now().Add(dying); ; time.Sleep(time.Millisecond) {
		if err := take(f); !errors.Is(err, unix.EAGAIN) || !isDying(holder()) || time.Now().After(end) {
			return err
		}
	}
}

// isDying reports whether a process is at its end, or has ended.
func isDying(pid string) bool {
	t, ok := lookAt(pid)
	return !ok || t.Ended() || t.Exiting()
}

func looksFree(f *os.File) error {
	look := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &look)
	if err == nil && look.Type != unix.F_UNLCK {
		err = unix.EAGAIN
	}
	return err
}

// LeftBehind is how many commands were noted, in the ledgers of a directory, by
// supervisors that were killed, and have not been taken over. Some may have ended since.
func LeftBehind(dir string) (n int) {
	for _, f := range orphaned(dir, false) {
		if list, _, err := entries(f); err == nil {
			boot := bootID()
			for _, e := range list {
				if e.Text == boot {
					n++
				}
			}
		}
		f.Close()
	}
	return n
}

// Gather moves the ledgers of supervisors that were killed into another directory,
// where the one that serves it finds them, or the next.
func Gather(from, to string) error {
	var failed error
	for _, f := range orphaned(from, true) {
		b, err := io.ReadAll(io.LimitReader(f, maxSlots*slotSize))
		name := filepath.Base(f.Name())
		if err == nil {
			err = atomicfile.Write(filepath.Join(to, name), b, atomicfile.Options{})
		}
		if err == nil {
			err = os.Remove(f.Name())
		}
		f.Close()
		failed = errors.Join(failed, err)
	}
	return failed
}

// HasLedger reports whether a directory holds a ledger, of a supervisor that lives
// or of one that was killed.
func HasLedger(dir string) bool {
	names, err := filepath.Glob(filepath.Join(dir, ledgerPrefix+"*"))
	return err == nil && len(names) > 0
}

// bootID tells one run of the machine from others.
func bootID() string {
	b, err := readFile("/proc/sys/kernel/random/boot_id", 64)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
