package topology

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The error for a wrong fabric names the line, the value and the choices.
func TestFabricIsChecked(t *testing.T) {
	for text, says := range map[string]string{
		"fabric: auto":      "",
		"fabric: off":       "",
		"fabric: \"off\"":   "",
		"fabric: verbs":     `line 1: fabric: "verbs": give auto (shared memory`,
		"\n\nfabric: [shm]": "line 3: fabric: give auto or off",
		"fabric:":           "",
	} {
		var f struct {
			Fabric Fabric `yaml:"fabric"`
		}
		err := Decode([]byte(text), &f)
		if says == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}
