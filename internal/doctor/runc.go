package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/words"
)

// A hole is a flaw by which a container gets out. Each was fixed in a release, and in a
// release of each later series.
type hole struct {
	cves  []string
	fixed []string // the first release with the fix, by series, oldest first
	// packages are versions of distributions' packages with the fix, although their
	// number is older.
	packages []string
}

// Sources: the advisories of opencontainers/runc, and Debian's changelog of
// the package.
var holes = []hole{
	{
		cves:     []string{"CVE-2024-21626"},
		fixed:    []string{"1.1.12"},
		packages: []string{"1.1.5+ds1-1+deb12u"},
	},
	{
		cves:  []string{"CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"},
		fixed: []string{"1.2.8", "1.3.3", "1.4.0-rc.3"},
	},
}

// closedBy reports whether the hole is known to be closed in a build.
func (h hole) closedBy(b RuncBuild) bool {
	if slices.ContainsFunc(h.packages, func(p string) bool { return strings.HasPrefix(b.Revision, p) }) {
		return true
	}
	series := versionNumbers(b.Version)[:2]
	for _, f := range h.fixed {
		if slices.Equal(series, versionNumbers(f)[:2]) {
			return compareVersions(b.Version, f) >= 0
		}
	}
	// No fix for this series is listed: it is newer than all of them, or too old.
	return compareVersions(b.Version, h.fixed[len(h.fixed)-1]) > 0
}

// repackaged reports whether a distribution built it. Distributions add fixes without a new
// number.
func (b RuncBuild) repackaged() bool {
	_, suffix, found := strings.Cut(b.Version, "+")
	return found && suffix != "dev" || strings.Contains(b.Version, "ubuntu") || strings.Contains(b.Revision, "deb") || strings.Contains(b.Revision, "ubuntu")
}

func (b RuncBuild) String() string {
	if b.Revision != "" && b.Revision != b.Version && b.repackaged() {
		return fmt.Sprintf("%s (%s)", b.Version, b.Revision)
	}
	return b.Version
}

// Runc looks for holes by which a container gets out.
func Runc(f EngineFacts) Finding {
	const name = "runc"
	b := f.Build
	if slices.Equal(versionNumbers(b.Version)[:3], []int{0, 0, 0}) {
		return Finding{Name: name, Status: Warn, Summary: "the engine does not say which runc it has",
			Meaning: "It cannot be told whether containers can break out by a hole that is known.",
			Fix:     "see that runc --version on the engine's machine is 1.2.8, 1.3.3 or newer"}
	}
	var open, fixes []string
	for _, h := range holes {
		if !h.closedBy(b) {
			open = append(open, h.cves...)
			fixes = h.fixed
		}
	}
	if len(open) == 0 {
		return Fine(name, "%v, without a hole that is known to corral", b)
	}
	c := Finding{Name: name, Status: Warn, Summary: fmt.Sprintf("%v may have %s", b, strings.Join(open, ", ")),
		Meaning: "By these a container can get out. They were fixed in runc " + words.Or(fixes) + ".",
		Fix:     "update runc, or the engine that brings it; or use --runtime runsc",
	}
	if b.repackaged() {
		c.Meaning += " This build is a distribution's, which may have the fixes under an older number: the number alone does not tell."
		c.Fix = "look for these numbers in the changelog of the package (Debian: zgrep CVE /usr/share/doc/runc/changelog.Debian.gz) and at security-tracker.debian.org; update it if they are not there; or use --runtime runsc"
	}
	return c
}
