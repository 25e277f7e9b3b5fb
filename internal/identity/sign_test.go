package identity

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/bubble"
)

func TestSignedText(t *testing.T) {
	dir := t.TempDir()
	ca := newCA(t, dir, "prod")
	a := mustLoad(t, issue(t, ca, dir, Request{Role: Server, Name: "a"}), nil)
	b := mustLoad(t, issue(t, ca, dir, Request{Role: Server, Name: "b"}), nil)
	text := []byte("name: prod\nversion: 1\n")
	signed, err := a.SignText(text)
	require.NoError(t, err)
	got, by, err := b.VerifyText(signed)
	require.NoError(t, err)
	require.Equal(t, text, got)
	require.Equal(t, "a", by.Name)
	again, err := b.SignText(got)
	require.NoError(t, err)
	_, by, err = a.VerifyText(again)
	require.NoError(t, err)
	require.Equal(t, "b", by.Name)

	for i := range signed { // a byte of the base64 of a signature may carry no information
		bad := bytes.Clone(signed)
		bad[i] ^= 1
		got, _, err := b.VerifyText(bad)
		require.True(t, err != nil || bytes.Equal(got, text), "byte %d", i)
		if err != nil {
			require.ErrorIs(t, err, ErrSignature)
		}
		_, _, err = b.VerifyText(signed[:i])
		require.ErrorIs(t, err, ErrSignature)
	}
	elsewhere := t.TempDir()
	other := newCA(t, elsewhere, "prod")
	stranger := mustLoad(t, issue(t, other, elsewhere, Request{Role: Server, Name: "a"}), nil)
	forged, err := stranger.SignText(text)
	require.NoError(t, err)
	_, _, err = b.VerifyText(forged)
	require.ErrorContains(t, err, "not of a CA")
	for _, role := range []Role{Client, Admin} {
		forged, err := mustLoad(t, issue(t, ca, dir, Request{Role: role, Name: "c"}), nil).SignText(text)
		require.NoError(t, err)
		_, _, err = b.VerifyText(forged)
		require.ErrorContains(t, err, "the signature is by")
	}
}

// A signed text stays valid after the server's certificate has expired, and after the CA was renewed.
func TestSignedTextOutlivesTheCertificate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		ca := newCA(t, dir, "prod")
		files := issue(t, ca, dir, Request{Role: Server, Name: "a", Validity: time.Hour})
		signed, err := mustLoad(t, files, nil).SignText([]byte("x\n"))
		require.NoError(t, err)
		time.Sleep(3 * time.Hour) // virtual
		all, err := ReadCertificates(files.Certificate)
		require.NoError(t, err)
		require.True(t, time.Now().After(all[0].NotAfter))
		next, err := ca.Renewed(CAValidity)
		require.NoError(t, err)
		require.NoError(t, SaveCA(dir, next, true))
		b := mustLoad(t, issue(t, next, dir, Request{Role: Server, Name: "b"}), nil)
		_, _, err = b.VerifyText(signed)
		require.NoError(t, err)
	})
}
