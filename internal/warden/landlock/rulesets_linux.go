package landlock

import (
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/confine"
)

// maxKept bounds how many rulesets are kept.
const maxKept = 16

// rulesets keeps the rulesets that were used last. To look whether each path is
// still what it was takes a quarter of the time that making one anew does.
type rulesets struct {
	mu     sync.Mutex
	closed bool
	kept   []*ruleset // the last used first
	// loaders are those of all rulesets that were made, with a descriptor of each, so
	// that no other file gets its number.
	loaders map[file]int
}

// hold notes that the file with the descriptor fd is a loader.
func (k *rulesets) hold(f file, fd int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.loaders[f]; ok || k.closed {
		return nil
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	if k.loaders == nil {
		k.loaders = map[file]int{}
	}
	k.loaders[f] = own
	return nil
}

// isLoader reports whether a file is the loader of any ruleset.
func (k *rulesets) isLoader(f file) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.loaders[f]
	return ok
}

// get returns the ruleset of a domain, for put.
func (k *rulesets) get(d *confine.Domain, version int) (*ruleset, error) {
	key := string(d.Append([]byte{byte(version)}))
	k.mu.Lock()
	i := slices.IndexFunc(k.kept, func(r *ruleset) bool { return r.key == key })
	var r *ruleset
	if i >= 0 {
		r = k.kept[i]
		r.users++
	}
	k.mu.Unlock()
	if r != nil {
		if r.current() { // without the lock: a path may be on a disk that does not answer
			k.keep(r)
			return r, nil
		}
		k.drop(r)
		k.put(r)
	}
	r, err := newRuleset(d, version, k.hold)
	if err != nil {
		return nil, err
	}
	r.key, r.users = key, 1
	k.keep(r)
	return r, nil
}

// keep has r be the first. It takes the place of another with its key.
func (k *rulesets) keep(r *ruleset) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || r.paths == nil {
		return
	}
	for i, other := range k.kept {
		if other == r {
			copy(k.kept[1:i+1], k.kept[:i])
			k.kept[0] = r
			return
		}
	}
	k.remove(func(other *ruleset) bool { return other.key == r.key })
	if len(k.kept) == maxKept {
		oldest := k.kept[maxKept-1]
		k.remove(func(other *ruleset) bool { return other == oldest })
	}
	r.users++
	k.kept = slices.Insert(k.kept, 0, r)
}

func (k *rulesets) drop(r *ruleset) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(func(other *ruleset) bool { return other == r })
}

// remove keeps some no longer. The lock is held.
func (k *rulesets) remove(which func(*ruleset) bool) {
	k.kept = slices.DeleteFunc(k.kept, func(r *ruleset) bool {
		if !which(r) {
			return false
		}
		r.release()
		return true
	})
}

// put gives back what get returned.
func (k *rulesets) put(r *ruleset) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.release()
}

func (k *rulesets) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.remove(func(*ruleset) bool { return true })
	for _, fd := range k.loaders {
		unix.Close(fd)
	}
	k.loaders = nil
}

// release ends a use of it. The lock of who keeps it is held.
func (r *ruleset) release() {
	if r.users--; r.users == 0 {
		r.close()
	}
}

// An identity is what a path was when a rule was made for it. A ruleset holds its
// files, so that no other gets the number of one, as long as their file system is
// mounted; another one that is mounted in its place has another mount, of a number
// that is never used again (Linux 6.8), or its files were made at another time.
type identity struct {
	major, minor uint32
	ino, mount   uint64
	born         unix.StatxTimestamp
}

var errUnknown = errors.New("the kernel does not tell it from another that took its place")

// identify returns the zero identity for what does not exist.
func identify(dir int, path string, flags int) (identity, error) {
	var st unix.Statx_t
	err := unix.Statx(dir, path, flags, unix.STATX_INO|unix.STATX_BTIME|unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE, &st)
	switch {
	case absent(err):
		return identity{}, nil
	case err != nil:
		return identity{}, err
	case st.Mask&(unix.STATX_BTIME|unix.STATX_MNT_ID_UNIQUE) == 0:
		return identity{}, errUnknown
	}
	return identity{st.Dev_major, st.Dev_minor, st.Ino, st.Mnt_id, st.Btime}, nil
}

// absent reports whether nothing that can be reached is there.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES)
}

// current reports whether every path is still the file for which its rule is.
func (r *ruleset) current() bool {
	for path, was := range r.paths {
		if is, err := identify(unix.AT_FDCWD, path, 0); err != nil || is != was {
			return false
		}
	}
	return true
}

// note remembers which file a path is; fd -1 that it does not exist. If that
// cannot be said, the ruleset is not kept.
func (r *ruleset) note(path string, fd int) {
	if r.paths == nil {
		return
	}
	is, err := identity{}, error(nil)
	if fd >= 0 {
		is, err = identify(fd, "", unix.AT_EMPTY_PATH)
	}
	if err != nil {
		r.paths = nil
		return
	}
	r.paths[path] = is
}
