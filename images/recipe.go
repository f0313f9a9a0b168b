package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// tarRules is counted up when the same recipe begins to give another archive.
const tarRules = 1

// A recipe is how an image of Corral's own is made.
type recipe struct {
	name  string
	title string
	path  string // PATH before a login profile
	shell string

	// content is all that the root file system is made from and that this
	// package decides. The packages' versions are not part of it: they
	// change by themselves, and Build brings them up to date.
	content any

	// check tells before a build begins what this machine lacks for it.
	check func() error
	build func(ctx context.Context, dir string, report Progress) (rootfs, error)
}

// recipes are Corral's own images by their names.
var recipes = map[string]recipe{
	Default: {
		name: Default, title: "Corral sandbox",
		path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", shell: "/bin/bash",
		content: debianContent, check: checkDebian, build: buildDebian,
	},
	Busybox: {
		name: Busybox, title: "Corral test sandbox",
		path: "/usr/local/bin:/usr/bin:/bin", shell: "/bin/sh",
		content: busyboxContent, check: checkBusybox, build: buildBusybox,
	},
}

// digest names this version of the recipe.
func (r recipe) digest() string {
	text, err := json.Marshal([]any{tarRules, r.config().changes(), r.content})
	if err != nil {
		panic(fmt.Sprintf("the recipe of %s is not plain data: %v", r.name, err)) // a test marshals them all
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// current reports whether img is what r would build now.
func (r recipe) current(img Image) bool { return img.Recipe == r.digest() }

// image is the configuration of the image. There is no USER and no ENTRYPOINT:
// who runs what is the sandbox's business.
func (r recipe) image() ImageConfig {
	c := r.config()
	c.Labels[LabelRecipe] = r.digest()
	c.Comment = "built by Corral from recipe " + c.Labels[LabelRecipe]
	return c
}

func (r recipe) config() ImageConfig {
	return ImageConfig{
		Env: []string{"PATH=" + r.path, "LANG=C.UTF-8"}, Dir: "/workspace", Cmd: []string{r.shell, "-l"},
		Labels: map[string]string{LabelImage: r.name, "org.opencontainers.image.title": r.title},
	}
}
