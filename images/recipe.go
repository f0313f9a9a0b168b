package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"
)

// archiveRules is counted up when the same recipe begins to give another image.
const archiveRules = 2

// A recipe is how an image of Corral's own is made.
type recipe struct {
	name  string
	title string
	path  string // PATH before a login profile
	shell string
	user  string // uid:gid; empty: root

	// content is all that the root file system is made from and that this
	// package decides. The packages' versions are not part of it: they
	// change by themselves, and Build brings them up to date.
	content any

	// check tells before a build begins what this machine lacks for it.
	check func() error
	build func(ctx context.Context, b building, report Progress) (rootfs, error)
}

// A building is what a build is told.
type building struct {
	recipe recipe
	dir    string    // for what it has on disk
	pins   []Package // nil: whatever is newest
	epoch  time.Time // no file is younger; zero: as the newest of the packages
}

// recipes are Corral's own images by their names.
var recipes = named(
	debian(Default, "Corral sandbox", daily...),
	debian(Base, "Corral base"),
	debian(Common, "Corral sandbox with compilers", slices.Concat(daily, compilers)...),
	debian(Code, "Corral sandbox with a code interpreter", slices.Concat(daily, notebook)...),
	recipe{
		name: Busybox, title: "Corral test sandbox",
		path: "/usr/local/bin:/usr/bin:/bin", shell: "/bin/sh",
		content: busyboxContent, check: checkBusybox, build: buildBusybox,
	},
)

func named(list ...recipe) map[string]recipe {
	m := map[string]recipe{}
	for _, r := range list {
		m[r.name] = r
	}
	return m
}

// Own are the names of Corral's own images.
func Own() []string { return slices.Sorted(maps.Keys(recipes)) }

// digest names this version of the recipe.
func (r recipe) digest() string {
	sum := sha256.Sum256(encode([]any{archiveRules, r.config(), r.content}))
	return hex.EncodeToString(sum[:])
}

// current reports whether img is what r would build now.
func (r recipe) current(img Image) bool { return img.Recipe == r.digest() }

// image is the configuration of the image. There is no ENTRYPOINT: what runs is
// the sandbox's business.
func (r recipe) image() ImageConfig {
	c := r.config()
	c.Labels[LabelRecipe] = r.digest()
	c.Comment = builtBy(c.Labels[LabelRecipe])
	return c
}

// builtBy is the comment of the last step of an image of Corral's own.
func builtBy(digest string) string { return "built by Corral from recipe " + digest }

func (r recipe) config() ImageConfig {
	return ImageConfig{
		User: r.user,
		Env:  []string{"PATH=" + r.path, "LANG=C.UTF-8"}, Dir: "/workspace", Cmd: []string{r.shell, "-l"},
		Labels: map[string]string{LabelImage: r.name, "org.opencontainers.image.title": r.title},
	}
}
