package images

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// scanTree lists what of a tree belongs into an image, parents first and in
// the order of their names. A directory that is pruned itself is there if
// something in it is. Of special files there are none: engines mount their own
// /dev, and the rest are leftovers of daemons.
func scanTree(root *os.Root, prune pruning) ([]entry, error) {
	type inode struct{ dev, ino uint64 }
	var entries []entry
	links := map[inode]string{} // the first name of files with several
	held := map[string]entry{}  // pruned directories with something to keep, maybe
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		keep, below := prune.keeps(name)
		if !keep && !below {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !keep && !d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e, ok, err := treeEntry(root, name, info)
		if err != nil || !ok {
			return err
		}
		if !keep {
			held[name] = e
			return nil
		}
		if stat := info.Sys().(*syscall.Stat_t); e.Typeflag == tar.TypeReg && stat.Nlink > 1 {
			id := inode{uint64(stat.Dev), stat.Ino}
			if first, seen := links[id]; seen {
				e.Typeflag, e.Linkname, e.Size, e.open = tar.TypeLink, first, 0, nil
			} else {
				links[id] = name
			}
		}
		entries = appendHeld(entries, held, path.Dir(name))
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// appendHeld adds the directories that were held back down to dir.
func appendHeld(entries []entry, held map[string]entry, dir string) []entry {
	if e, ok := held[dir]; ok {
		entries = appendHeld(entries, held, path.Dir(dir))
		delete(held, dir)
		entries = append(entries, e)
	}
	return entries
}

// treeEntry describes a file; ok is false for a special file.
func treeEntry(root *os.Root, name string, info fs.FileInfo) (_ entry, ok bool, err error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return entry{}, false, fmt.Errorf("%s: its file system tells no owner", name)
	}
	var e entry
	switch mode := info.Mode(); {
	case mode.IsDir():
		e = dirEntry(name, mode, info.ModTime())
	case mode&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			return entry{}, false, err
		}
		e = linkEntry(name, target, info.ModTime())
	case mode.IsRegular():
		e = fileEntry(name, mode, nil, info.ModTime())
		e.Size = info.Size()
		e.open = func() (io.ReadCloser, error) { return root.Open(name) }
	default:
		return entry{}, false, nil
	}
	e.Uid, e.Gid = int(stat.Uid), int(stat.Gid)
	return e, true, nil
}
