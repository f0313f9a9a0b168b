package pathenv

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/corral-exec/corral"
)

func TestReport(t *testing.T) {
	for want, dropped := range map[string][]Dropped{
		"":                       nil,
		"1 variable left out: A": {{"A", SourceDaemon, ReasonHook}},
		"2 variables left out: A, Z_9": {
			{"Z_9", SourceNode, ReasonHook}, {"A", SourceDaemon, ReasonHook}, {"A", SourceConfig, ReasonStrict}, {"MINE", SourceCall, ReasonReserved}},
		`3 variables left out: "", "a, b", "x\n\x1b\u202e"`: {
			{"", SourceDaemon, ReasonMalformed}, {"a, b", SourceDaemon, ReasonMalformed}, {"x\n\x1b\u202e", SourceDaemon, ReasonMalformed}},
	} {
		notice, warnings := Environment{Dropped: dropped}.Report()
		if notice != want {
			t.Errorf("%q, want %q", notice, want)
		}
		asked := slices.ContainsFunc(dropped, func(d Dropped) bool { return d.Source == SourceCall })
		if asked != (len(warnings) == 1 && strings.Contains(warnings[0], "MINE from the call")) || !asked && warnings != nil {
			t.Errorf("%s: warnings %q", want, warnings)
		}
	}
}

// An environment can have any content; the notice about it is one short line.
func TestReportIsBounded(t *testing.T) {
	var environ []string
	for i := range 5000 {
		environ = append(environ, fmt.Sprintf("%s%d_\x1b]52;c\a%s_TOKEN=x", strings.Repeat("N", 200), i, strings.Repeat("\xff", 90)))
	}
	env, err := Gateway(GatewayOptions{Inherited: environ, GOOS: "linux"})
	if err != nil {
		t.Fatal(err)
	}
	notice, warnings := env.Report()
	if len(notice) > corral.MaxNotice || strings.ContainsFunc(notice, unicode.IsControl) || !strings.HasPrefix(notice, "5000 variables left out: ") || !strings.HasSuffix(notice, " and 4976 more") {
		t.Errorf("%d bytes: %q", len(notice), notice)
	}
	if len(warnings) > 0 {
		t.Errorf("%q", warnings)
	}
}
