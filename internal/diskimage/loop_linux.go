package diskimage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const (
	loopControl = "/dev/loop-control"
	loopMajor   = 7 // of the numbers of loop devices
)

// attempts bounds how often another program takes the device that was free.
const attempts = 100

// attach returns a loop device that has an image in it, which it keeps while
// the file is open or it is mounted. There is never more than one: two would
// each write what the other does not know of.
func attach(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if device, err := attached(st.Dev, st.Ino); err != nil || device != nil {
		return device, err
	}
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot get a loop device: %w", err)
	}
	defer control.Close()
	for range attempts {
		var n int
		if n, err = unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE); err != nil {
			break
		}
		var device *os.File
		if device, err = configure(fmt.Sprintf("/dev/loop%d", n), f); err == nil {
			return device, nil
		}
		if !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	return nil, fmt.Errorf("cannot get a loop device: %w", err)
}

// configure puts an image into a free device.
func configure(name string, f *os.File) (device *os.File, err error) {
	w, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	// Some kernels mount nothing that is open for writing.
	defer func() { err = errors.Join(err, w.Close()) }()
	// Without direct I/O every page would be in memory twice.
	config := unix.LoopConfig{Fd: uint32(f.Fd()), Size: blockSize, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO}}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], f.Name())
	if err := unix.IoctlLoopConfigure(int(w.Fd()), &config); err != nil {
		return nil, fmt.Errorf("cannot set up %s (it takes Linux from 5.8): %w", name, err)
	}
	return os.Open(name)
}

// attached finds the device that has a file in it; nil if none has.
func attached(dev, ino uint64) (*os.File, error) {
	used, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return nil, err
	}
	for _, dir := range used {
		device, err := os.Open("/dev/" + filepath.Base(filepath.Dir(dir)))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot look at a loop device: %w", err)
		}
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		if err == nil && info.Device == dev && info.Inode == ino {
			return device, nil
		}
		device.Close()
		if err != nil && !errors.Is(err, unix.ENXIO) { // it has nothing in it any more
			return nil, fmt.Errorf("cannot look at a loop device: %w", err)
		}
	}
	return nil, nil
}

// Mounts are all images that are mounted where this program sees it.
func Mounts() ([]Mounted, error) {
	list, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.Major != loopMajor || m.Root != "/", false
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list what is mounted: %w", err)
	}
	var found []Mounted
	for _, m := range list {
		b, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/loop/backing_file", m.Major, m.Minor))
		if errors.Is(err, fs.ErrNotExist) { // unmounted meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot see what is mounted on %s: %w", m.Mountpoint, err)
		}
		file, deleted := strings.CutSuffix(strings.TrimSuffix(string(b), "\n"), " (deleted)")
		found = append(found, Mounted{File: file, Dir: m.Mountpoint, Deleted: deleted})
	}
	return found, nil
}
