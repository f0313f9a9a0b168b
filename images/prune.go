package images

import (
	"path"
	"strings"
)

// A pruning says which files of a tree stay out of an image. Patterns are
// those of path.Match for each component, relative to the root; one that
// matches a directory is about all that is in it.
type pruning struct {
	Drop []string
	Keep []string // wins over Drop
}

// keeps reports whether name belongs into the image, and for one that does
// not, whether something below it may.
func (p pruning) keeps(name string) (keep, below bool) {
	dropped := false
	for _, pattern := range p.Drop {
		if covers, _ := relate(pattern, name); covers {
			dropped = true
			break
		}
	}
	if !dropped {
		return true, true
	}
	for _, pattern := range p.Keep {
		covers, leads := relate(pattern, name)
		if covers {
			return true, true
		}
		below = below || leads
	}
	return false, below
}

// relate compares a pattern with a path: it covers a path that it or whose
// ancestor it matches, and leads to what it may match below the path.
func relate(pattern, name string) (covers, leads bool) {
	for {
		p, restPattern, morePattern := strings.Cut(pattern, "/")
		n, restName, moreName := strings.Cut(name, "/")
		if ok, err := path.Match(p, n); err != nil || !ok { // a test checks the patterns
			return false, false
		}
		if !morePattern {
			return true, false
		}
		if !moreName {
			return false, true
		}
		pattern, name = restPattern, restName
	}
}
