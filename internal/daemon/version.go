package daemon

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// VersionInfo says what this program was built from.
type VersionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Time    string `json:"time,omitempty"` // of the commit
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Version says what this program was built from, with the version that the linker was
// given. A program built by go install has none, and knows its module's.
func Version(linked string) VersionInfo {
	v := VersionInfo{Version: linked, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		v.Version = cmp.Or(v.Version, build.Main.Version)
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.time":
				v.Time = s.Value
			}
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "unknown"
	}
	return v
}
