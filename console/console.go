package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// policy is what the pages may do: run the scripts of this origin and reload, which it
// names by its sum, and call it.
const policy = "default-src 'none'; script-src 'self' 'sha256-%s'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// An asset is a file of the bundle.
type asset struct {
	kind         string // media type
	plain, small []byte // small is compressed
}

// A bundle is all files, under a name that changes with any of them.
type bundle struct {
	hash   string
	assets map[string]asset
}

// load is called by the first request: to compress takes longer than most of a gateway's start.
var load = sync.OnceValue(func() *bundle {
	b := &bundle{assets: map[string]asset{}}
	files, err := fs.ReadDir(dist, "dist")
	if err != nil {
		panic(fmt.Sprintf("the console's bundle is not embedded: %v", err))
	}
	sum := sha256.New()
	for _, f := range files { // sorted
		data, err := dist.ReadFile("dist/" + f.Name())
		if err != nil {
			panic(fmt.Sprintf("the console's bundle is not embedded: %v", err))
		}
		fmt.Fprintf(sum, "%s %d\n", f.Name(), len(data))
		sum.Write(data)
		b.assets[f.Name()] = newAsset(f.Name(), data)
	}
	b.hash = hex.EncodeToString(sum.Sum(nil))[:16]
	return b
})

func newAsset(name string, data []byte) asset {
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	_, _ = z.Write(data) // into memory
	_ = z.Close()
	return asset{kind: mime.TypeByExtension(path.Ext(name)), plain: data, small: small.Bytes()}
}

// reload loads the page again if a file of it could not be loaded. A browser drops a
// connection that it makes while an address of its machine comes or goes, as those of
// containers do, and does not try again.
const reload = `addEventListener('error', ({target}) => {
	if (!target.src && !target.href) return; // it is an exception
	document.getElementById('app')?.replaceChildren('The console could not be loaded. Trying again.');
	setTimeout(() => location.reload(), 1000);
}, true);`

// page is the same for every URL: the script reads the URL.
const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Corral</title>
<script>` + reload + `</script>
<link rel="icon" href="%[1]sicon.svg">
<link rel="stylesheet" href="%[1]sapp.css">
<script type="module" src="%[1]sapp.js"></script>
<div id="app"></div>
<noscript>The console needs JavaScript. Everything in it can be done with the command corral, too.</noscript>
</html>
`

// assetDir is where the files of the bundle are, below the root of the console.
const assetDir = "assets/"

// Handler serves the console below a root, such as "/console/".
func Handler(root string) http.Handler {
	sum := sha256.Sum256([]byte(reload))
	csp := fmt.Sprintf(policy, base64.StdEncoding.EncodeToString(sum[:]))
	start := sync.OnceValue(func() asset {
		return newAsset("index.html", fmt.Appendf(nil, page, root+assetDir+load().hash+"/"))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", csp)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		rest, isAsset := strings.CutPrefix(strings.TrimPrefix(r.URL.Path, root), assetDir)
		if !isAsset {
			h.Set("Cache-Control", "no-cache")
			start().serve(w, r)
			return
		}
		b := load()
		hash, name, _ := strings.Cut(rest, "/")
		a, ok := b.assets[name]
		if !ok || hash != b.hash { // the page is of another version
			h.Set("Cache-Control", "no-store")
			http.Error(w, "there is no such file: reload the page", http.StatusNotFound)
			return
		}
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		a.serve(w, r)
	})
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Vary", "Accept-Encoding")
	data := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		data = a.small
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	_, _ = w.Write(data) // the client is gone
}
