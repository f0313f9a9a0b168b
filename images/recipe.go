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
	text, err := json.Marshal([]any{tarRules, r.config(), r.content})
	if err != nil {
		panic(fmt.Sprintf("the recipe of %s is not plain data: %v", r.name, err)) // a test marshals them all
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// current reports whether img is what r would build now.
func (r recipe) current(img Image) bool { return img.Recipe == r.digest() }

// changes is the configuration of the image, as instructions of a Dockerfile.
// There is no USER and no ENTRYPOINT: who runs what is the sandbox's business.
func (r recipe) changes() []string {
	return append(r.config(), "LABEL "+LabelRecipe+"="+r.digest())
}

func (r recipe) config() []string {
	return []string{
		"ENV PATH=" + r.path,
		"ENV LANG=C.UTF-8",
		"WORKDIR /workspace",
		fmt.Sprintf("CMD [%q, \"-l\"]", r.shell),
		"LABEL " + LabelImage + "=" + r.name,
		fmt.Sprintf("LABEL org.opencontainers.image.title=%q", r.title),
	}
}
