// franz-go's registry client: registers, refers, compares and deletes, and tells what it got.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

const user = `{"type":"record","name":"User","fields":[{"name":"id","type":"string"}]}`
const user2 = `{"type":"record","name":"User","fields":[{"name":"id","type":"string"},{"name":"mail","type":"string","default":""}]}`
const wrong = `{"type":"record","name":"User","fields":[{"name":"id","type":"string"},{"name":"age","type":"int"}]}`
const list = `{"type":"record","name":"List","fields":[{"name":"users","type":{"type":"array","items":"User"}}]}`

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	return value
}

func code(err error) int {
	var refused *sr.ResponseError
	if errors.As(err, &refused) {
		return refused.ErrorCode
	}
	return 0
}

func main() {
	ctx := context.Background()
	cl := must(sr.NewClient(sr.URLs(os.Args[1])))

	first := must(cl.CreateSchema(ctx, "user", sr.Schema{Schema: user}))
	again := must(cl.CreateSchema(ctx, "user", sr.Schema{Schema: user}))
	fmt.Println("registered", first.ID == again.ID, first.Version)
	second := must(cl.CreateSchema(ctx, "user", sr.Schema{Schema: user2}))
	fmt.Println("second", second.Version, must(cl.SubjectVersions(ctx, "user")))
	_, err := cl.CreateSchema(ctx, "user", sr.Schema{Schema: wrong})
	fmt.Println("incompatible", code(err))
	check := must(cl.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), "user", -1, sr.Schema{Schema: wrong}))
	fmt.Println("check", check.Is, len(check.Messages) > 0)

	reference := sr.SchemaReference{Name: "User", Subject: "user", Version: 1}
	lists := must(cl.CreateSchema(ctx, "list", sr.Schema{Schema: list, References: []sr.SchemaReference{reference}}))
	referring := must(cl.SchemaReferences(ctx, "user", 1))
	fmt.Println("references", len(referring), referring[0].ID == lists.ID)
	_, err = cl.DeleteSubject(ctx, "user", sr.SoftDelete)
	fmt.Println("still referred to", code(err))

	fmt.Println("by id", must(cl.SchemaByID(ctx, first.ID)).Schema == user, must(cl.SchemaTextByID(ctx, first.ID)) == user)
	fmt.Println("subjects by id", must(cl.SubjectsByID(ctx, first.ID)), len(must(cl.SchemaVersionsByID(ctx, first.ID))))
	byGUID := must(cl.SchemaByGUID(ctx, first.GUID))
	fmt.Println("by guid", byGUID.ID == first.ID, byGUID.Subject, must(cl.SchemaIDsByGUID(ctx, first.GUID))[0].Context)
	fmt.Println("looked up", must(cl.LookupSchema(ctx, "user", sr.Schema{Schema: user2})).Version)
	_, err = cl.SchemaByVersion(ctx, "nobody", 1)
	fmt.Println("missing", code(err))

	set := cl.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFullTransitive}, "user", "")
	fmt.Println("level", set[0].Err, set[1].Err, cl.Compatibility(ctx, "user")[0].Level)
	fmt.Println("reset", cl.ResetCompatibility(ctx, "user")[0].Err)
	fmt.Println("mode", cl.SetMode(ctx, sr.ModeReadOnly, "user")[0].Err, cl.Mode(ctx, "user")[0].Mode)
	_, err = cl.CreateSchema(ctx, "user", sr.Schema{Schema: `"int"`})
	fmt.Println("read only", code(err), cl.ResetMode(ctx, "user")[0].Err)

	staging := sr.InContext(ctx, ".staging")
	inside := must(cl.CreateSchema(staging, "user", sr.Schema{Schema: user2}))
	fmt.Println("context", inside.Subject, must(cl.SchemaByID(staging, inside.ID)).Schema == user2, must(cl.Contexts(ctx)))

	proto := sr.Schema{Schema: `syntax = "proto3"; message A { int32 n = 1; }`, Type: sr.TypeProtobuf}
	json := sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON}
	fmt.Println("types", must(cl.CreateSchema(ctx, "p", proto)).Type, must(cl.CreateSchema(ctx, "j", json)).Type)

	fmt.Println("deleted", cl.DeleteSchema(ctx, "list", 1, sr.SoftDelete), cl.DeleteSchema(ctx, "list", 1, sr.HardDelete))
	fmt.Println("versions", must(cl.DeleteSubject(ctx, "user", sr.SoftDelete)), must(cl.DeleteSubject(ctx, "user", sr.HardDelete)))
	fmt.Println("left", must(cl.Subjects(ctx)))
}
