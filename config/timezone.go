package config

import (
	"time"
	_ "time/tzdata" // 450 KB, so that every machine that checks a file comes to the same answer

	"github.com/corral-exec/corral/internal/json5"
	"github.com/corral-exec/corral/internal/lazy"
)

// posixZone is a time zone that is in no database: a name, how far it is from
// UTC, and perhaps the same of summer, and when that begins and ends.
var posixZone = lazy.Regexp(`^` + zoneName + zoneOffset + `(` + zoneName + `(` + zoneOffset + `)?(` + zoneDate + zoneDate + `)?)?$`)

const (
	zoneName   = `([A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)`
	zoneOffset = `[+-]?([01]?[0-9]|2[0-4])(:[0-5][0-9]){0,2}`
	zoneDate   = `,(J?[0-9]{1,3}|M[0-9]{1,2}\.[1-5]\.[0-6])(/[+-]?[0-9]{1,3}(:[0-5][0-9]){0,2})?`
)

// timeZone notes a time zone that there is not: programs take one that they do
// not know for UTC, and say nothing.
func (m *mistakes) timeZone(v *json5.Value, at json5.Path) {
	if v.Kind != json5.String || m.in(v) || posixZone().MatchString(v.String) {
		return
	}
	// Local is Go's name for that of this machine.
	if _, err := time.LoadLocation(v.String); err != nil || v.String == time.Local.String() {
		m.add(v.Start, at, "there is no time zone %q; use a name of the IANA database, such as Europe/Berlin, or one like CET-1CEST, as POSIX has them", shorten(v.String))
	}
}
