package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/words"
)

func Warden(arch string, find func(goarch string) ([]byte, error)) Finding {
	const name = "warden"
	data, err := find(arch)
	if err != nil {
		return Failed(name, err, "Commands cannot be supervised in a sandbox, and on the gateway only for one call.")
	}
	return Fine(name, "corral-warden for linux/%s, %s", arch, words.Bytes(int64(len(data))))
}

// Image checks the image of sandboxes. It never pulls an image: that takes too long.
func Image(ctx context.Context, ref string, eng images.Engine) Finding {
	const name = "image"
	own, err := images.Store{Engine: eng}.List(ctx)
	if err != nil {
		return Failed(name, err, "It is not known whether the image of sandboxes is there.")
	}
	for _, i := range own {
		if i.Ref == ref && !i.Stale {
			return Fine(name, "%s, %s", ref, words.Bytes(i.Size))
		}
	}
	r, err := eng.Image(ctx, ref)
	switch {
	case cerrdefs.IsNotFound(err):
		return Finding{Name: name, Status: Warn, Summary: fmt.Sprintf("the engine does not have %s yet", ref),
			Meaning: "The first command in a sandbox waits until it was built or pulled.", Fix: "corral images ensure " + ref}
	case err != nil:
		return Failed(name, err, "It is not known whether the image of sandboxes is there.")
	case r.Labels[images.LabelImage] == ref: // images that are built on it have the label, too
		return Finding{Name: name, Status: Warn, Summary: fmt.Sprintf("%s is of an older recipe", ref),
			Meaning: "Sandboxes use it as it is.", Fix: "corral images ensure " + ref}
	}
	return Fine(name, "%s, %s", ref, words.Bytes(r.Size))
}

// StateDir tries to write to the directory, or to the one in which it would be made.
func StateDir(dir string) Finding {
	const name = "state-dir"
	const meaning = "No command is started: what is known of each is kept there."
	const fix = "make it writable for this user, with room on its disk (df, df -i), or choose another with --state-dir or CORRAL_STATE_DIR"
	existing, info, err := nearest(dir)
	switch {
	case err != nil:
		return Finding{Name: name, Status: Fail, Summary: fmt.Sprintf("cannot look at %s: %v", dir, err), Meaning: meaning, Fix: fix}
	case !info.IsDir():
		return Finding{Name: name, Status: Fail, Summary: fmt.Sprintf("%s is not a directory", existing), Meaning: meaning, Fix: fix}
	}
	f, err := os.CreateTemp(existing, ".corral-doctor-*")
	if err == nil {
		_, err = f.Write(make([]byte, 64<<10)) // a full disk may have room for a file, but none for its bytes
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return Finding{Name: name, Status: Fail, Summary: fmt.Sprintf("%s cannot be written: %v", dir, err), Meaning: meaning, Fix: fix}
	}
	if existing != dir {
		return Fine(name, "%s will be made when it is needed", dir)
	}
	return Fine(name, "%s can be written", dir)
}

// nearest is dir, or the nearest directory above it that exists.
func nearest(dir string) (string, fs.FileInfo, error) {
	for {
		info, err := os.Stat(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir, info, err
		}
		dir = filepath.Dir(dir)
	}
}

// slowProfile is how long a login shell may take before it is reported as slow.
const slowProfile = 2 * time.Second

func LoginPath(path string, took time.Duration, err error) Finding {
	const name = "login-path"
	switch {
	case err != nil:
		c := Failed(name, err, "On the gateway, commands find programs on corral's own PATH only.")
		c.Status = Warn
		return c
	case took > slowProfile:
		return Finding{Name: name, Status: Warn, Summary: fmt.Sprintf("the login shell took %v to tell its PATH", took.Round(100*time.Millisecond)),
			Meaning: "Each corral exec on the gateway waits for it.", Fix: "make the shell's profile faster"}
	case path == "":
		return Fine(name, "this system has no login shells")
	}
	return Fine(name, "%s", path)
}
