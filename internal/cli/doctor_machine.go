package cli

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
	"github.com/corral-exec/corral/internal/daemon"
)

func checkWarden(arch string, find func(goarch string) ([]byte, error)) finding {
	const name = "warden"
	data, err := find(arch)
	if err != nil {
		return failed(name, err, "Commands cannot be supervised in a sandbox, and on the gateway only for one call.")
	}
	return ok(name, "corral-warden for linux/%s, %s", arch, bytesText(int64(len(data))))
}

// checkImage never gets an image: that takes its time.
func checkImage(ctx context.Context, ref string, eng images.Engine) finding {
	const name = "image"
	own, err := images.Store{Engine: eng}.List(ctx)
	if err != nil {
		return failed(name, err, "It is not known whether the image of sandboxes is there.")
	}
	for _, i := range own {
		if i.Ref == ref && !i.Stale {
			return ok(name, "%s, %s", ref, bytesText(i.Size))
		}
	}
	r, err := eng.Image(ctx, ref)
	switch {
	case cerrdefs.IsNotFound(err):
		return finding{Name: name, Status: levelWarn, Summary: fmt.Sprintf("the engine does not have %s yet", ref),
			Meaning: "The first command in a sandbox waits until it was built or pulled.", Fix: "corral images ensure " + ref}
	case err != nil:
		return failed(name, err, "It is not known whether the image of sandboxes is there.")
	case r.Labels[images.LabelRecipe] != "":
		return finding{Name: name, Status: levelWarn, Summary: fmt.Sprintf("%s is of an older recipe", ref),
			Meaning: "Sandboxes use it as it is.", Fix: "corral images ensure " + ref}
	}
	return ok(name, "%s, %s", ref, bytesText(r.Size))
}

// checkStateDir tries to write where the directory is or would be.
func checkStateDir(dir string) finding {
	const name = "state-dir"
	const meaning = "No sandbox can be made: what they need is kept there."
	const fix = "make it writable for this user, or choose another with --state-dir or CORRAL_STATE_DIR"
	existing, info, err := nearest(dir)
	switch {
	case err != nil:
		return finding{Name: name, Status: levelFail, Summary: fmt.Sprintf("cannot look at %s: %v", dir, err), Meaning: meaning, Fix: fix}
	case !info.IsDir():
		return finding{Name: name, Status: levelFail, Summary: fmt.Sprintf("%s is not a directory", existing), Meaning: meaning, Fix: fix}
	}
	f, err := os.CreateTemp(existing, ".corral-doctor-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return finding{Name: name, Status: levelFail, Summary: fmt.Sprintf("%s cannot be written: %v", dir, err), Meaning: meaning, Fix: fix}
	}
	if existing != dir {
		return ok(name, "%s will be made when it is needed", dir)
	}
	return ok(name, "%s can be written", dir)
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

// slowProfile is how long a login shell may take before it is worth a word.
const slowProfile = 2 * time.Second

func checkLoginPath(path string, took time.Duration, err error) finding {
	const name = "login-path"
	switch {
	case err != nil:
		c := failed(name, err, "On the gateway, commands find programs on corral's own PATH only.")
		c.Status = levelWarn
		return c
	case took > slowProfile:
		return finding{Name: name, Status: levelWarn, Summary: fmt.Sprintf("the login shell took %v to tell its PATH", took.Round(100*time.Millisecond)),
			Meaning: "Each corral exec on the gateway waits for it.", Fix: "make the shell's profile faster"}
	case path == "":
		return ok(name, "this system has no login shells")
	}
	return ok(name, "%s", path)
}

// checkMode says where commands run that are meant for a sandbox; required is
// sandbox.required.
func checkMode(mode string, required bool) finding {
	const name = "sandbox"
	switch mode {
	case daemon.ModeAll:
		return ok(name, "on: commands run in a sandbox unless --host or --elevated sends them elsewhere")
	case daemon.ModeRequired:
		return ok(name, "required: commands run in a sandbox or not at all")
	}
	f := finding{Name: name, Status: levelWarn, Summary: "off (sandbox.mode)",
		Meaning: "Commands that are meant for it run directly on this machine, with no container and no approval.",
		Fix:     "corral config set sandbox.mode all, or set CORRAL_SANDBOX=all, or give --sandbox all or --host sandbox to corral exec"}
	if required {
		f.Meaning = "Commands that are meant for it are refused, since sandbox.required is set."
	}
	return f
}
