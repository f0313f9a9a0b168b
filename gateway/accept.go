package gateway

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/corral-exec/corral/api"
)

// streamTypes are the media types of output for everybody.
var streamTypes = []string{api.TypeLines, api.TypeEvents}

// accepted is the type that the header Accept prefers among streamTypes and usual,
// which is also the answer to a header that names none of them.
func accepted(r *http.Request, usual string) string {
	best, most := usual, 0.0
	for _, part := range strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil || kind != usual && !slices.Contains(streamTypes, kind) {
			continue
		}
		weight := 1.0
		if q, ok := params["q"]; ok {
			if weight, err = strconv.ParseFloat(q, 64); err != nil || weight > 1 {
				continue
			}
		}
		if weight > most { // of two that are equal, the first
			best, most = kind, weight
		}
	}
	return best
}
