package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cmdline"
)

// versionInfo says what this program was built from.
type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Time    string `json:"time,omitempty"` // of the commit
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// newVersionInfo takes the version that the linker was given; a program built
// by go install has none, and knows its module's.
func newVersionInfo(linked string, build *debug.BuildInfo) versionInfo {
	v := versionInfo{Version: linked, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if build != nil {
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

func (a *app) versionCommand() *cobra.Command {
	return withJSON(&cobra.Command{
		Use:   "version",
		Short: "Say which version of corral this is",
		Args:  cmdline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.printVersion()
		},
	})
}

func (a *app) versionInfo() versionInfo {
	build, _ := debug.ReadBuildInfo()
	return newVersionInfo(a.version, build)
}

func (a *app) printVersion() error {
	v := a.versionInfo()
	if a.json() {
		return a.printJSON(v, nil)
	}
	_, err := fmt.Fprintf(a.stdout, "corral %s (%s, %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
	return err
}
