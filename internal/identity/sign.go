package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
)

// The signature of a text is in comments after the text, so that a program without support for signatures can
// read the text.
const (
	signedBy      = "# signed-by: "
	signatureLine = "# signature: "
)

// ErrSignature means that a text is not signed by a server of the cluster.
var ErrSignature = errors.New("not signed by a server of the cluster")

// signed returns the bytes that a signature covers: they exclude texts of another kind or another cluster.
func (l *loaded) signed(text []byte) []byte {
	return append([]byte("globalfs signed text 1\n"+l.identity.Cluster+"\n"), text...)
}

// SignText appends the signature of this process, and its certificate. The text ends with a newline.
func (c *Credentials) SignText(text []byte) ([]byte, error) {
	now := c.current()
	key, ok := now.certificate.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: the key cannot sign", c.files.Key)
	}
	message, hash := now.signed(text), crypto.SHA256
	var options crypto.SignerOpts = hash
	switch key.Public().(type) {
	case ed25519.PublicKey:
		options = crypto.Hash(0)
	default:
		sum := sha256.Sum256(message)
		message = sum[:]
	}
	signature, err := key.Sign(rand.Reader, message, options)
	if err != nil {
		return nil, fmt.Errorf("%s: sign: %w", c.files.Key, err)
	}
	base := base64.StdEncoding
	out := bytes.Clone(text)
	out = append(out, signedBy+base.EncodeToString(bytes.Join(now.certificate.Certificate, nil))+"\n"...)
	return append(out, signatureLine+base.EncodeToString(signature)+"\n"...), nil
}

// VerifyText checks that a server of the cluster has signed a text with SignText, and returns the text
// without the signature, and the server. The certificate of the server may have expired since: a description
// lives longer than certificates. The error is ErrSignature.
func (c *Credentials) VerifyText(data []byte) (text []byte, signer Identity, err error) {
	now := c.current()
	text, chain, signature, err := splitSigned(data)
	if err != nil {
		return nil, Identity{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	signer, err = FromCertificate(chain[0])
	switch {
	case err != nil:
	case signer.Cluster != now.identity.Cluster || signer.Role != Server:
		err = fmt.Errorf("the signature is by %s", signer)
	case c.CheckRevoked(chain[0]) != nil:
		err = c.CheckRevoked(chain[0])
	case !now.issued(chain):
		err = fmt.Errorf("the certificate of %s is not of a CA that this process trusts", signer)
	default:
		err = chain[0].CheckSignature(algorithm(chain[0]), now.signed(text), signature)
	}
	if err != nil {
		return nil, Identity{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return text, signer, nil
}

// splitSigned splits the output of SignText.
func splitSigned(data []byte) (text []byte, chain []*x509.Certificate, signature []byte, err error) {
	at := bytes.LastIndex(data, []byte("\n"+signedBy))
	if at < 0 {
		return nil, nil, nil, errors.New("there is no signature")
	}
	text = data[:at+1]
	rest := bytes.TrimPrefix(data[at+1:], []byte(signedBy))
	certificates, rest, _ := bytes.Cut(rest, []byte("\n"))
	line, isSignature := bytes.CutPrefix(rest, []byte(signatureLine))
	line, ends := bytes.CutSuffix(line, []byte("\n"))
	if !isSignature || !ends || bytes.ContainsRune(line, '\n') {
		return nil, nil, nil, errors.New("the signature is not the last line")
	}
	der, err := base64.StdEncoding.DecodeString(string(certificates))
	if err != nil {
		return nil, nil, nil, err
	}
	if chain, err = x509.ParseCertificates(der); err != nil || len(chain) == 0 {
		return nil, nil, nil, errors.Join(errors.New("the signature has no certificate"), err)
	}
	signature, err = base64.StdEncoding.DecodeString(string(line))
	return text, chain, signature, err
}

// issued reports whether a chain leads to one of the CAs, at any time.
func (l *loaded) issued(chain []*x509.Certificate) bool {
	for i, c := range chain {
		for _, ca := range l.authorities {
			if c.CheckSignatureFrom(ca) == nil {
				return true
			}
		}
		if i+1 == len(chain) || c.CheckSignatureFrom(chain[i+1]) != nil {
			return false
		}
	}
	return false
}

// algorithm returns the signature algorithm of SignText for the key of a certificate.
func algorithm(c *x509.Certificate) x509.SignatureAlgorithm {
	switch c.PublicKey.(type) {
	case ed25519.PublicKey:
		return x509.PureEd25519
	case *rsa.PublicKey:
		return x509.SHA256WithRSA
	case *ecdsa.PublicKey:
		return x509.ECDSAWithSHA256
	}
	return x509.UnknownSignatureAlgorithm
}
