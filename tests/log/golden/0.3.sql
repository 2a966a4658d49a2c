BEGIN TRANSACTION;
CREATE TABLE event (
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        time REAL NOT NULL,
        kind TEXT NOT NULL,
        body BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;
INSERT INTO "event" VALUES(1,1,1.79493571082815766335e+09,'began',CAST('{"session":"3a5ef87ce9bb6d72af9e3e870db0dddf","version":"0.2.0"}' AS BLOB),1574668076);
INSERT INTO "event" VALUES(1,2,1.79493571082815766335e+09,'settings',CAST('{"model":"scripted","system":"Be brief.","tools":["look"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":"","seal":"c0d784c01eb3aaf1a4a659727bbc7bcbfdbb2d9ece6a230e5b43e1df91a604cc"}' AS BLOB),3202815959);
INSERT INTO "event" VALUES(1,3,1.79493571083770632744e+09,'run_started',CAST('{}' AS BLOB),3152043766);
INSERT INTO "event" VALUES(1,4,1.79493571083770632744e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"What is in the attic?"}]}}' AS BLOB),1398461567);
INSERT INTO "event" VALUES(1,5,1.79493571083918023109e+09,'requested',CAST('{"system":"Be brief.","tools":[{"name":"look","description":"Look at a place.","parameters":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"],"additionalProperties":false},"is_answer":false,"deferred":""}],"server_tools":[],"settings":{},"output_schema":null,"reminder":""}' AS BLOB),1515927213);
INSERT INTO "event" VALUES(1,6,1.79493571083918023109e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look","input":{"place":"the attic"}}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"tool_use","model":"scripted","first_token":0.0}' AS BLOB),2418848337);
INSERT INTO "event" VALUES(1,7,1.79493571083918023109e+09,'tool_started',CAST('{"call_id":"call_1","name":"look","effect":"read","key":"3a5ef87ce9bb6d72af9e3e870db0dddf/call_1","input":{"place":"the attic"}}' AS BLOB),3451865641);
INSERT INTO "event" VALUES(1,8,1.7949357108556394577e+09,'tool_finished',CAST('{"result":{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"the attic is empty."}]}}' AS BLOB),1639819040);
INSERT INTO "event" VALUES(1,9,1.79493571085686802864e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"The attic is empty."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),881758889);
INSERT INTO "event" VALUES(1,10,1.79493571085686802864e+09,'run_stopped',CAST('{"status":"done","turns":2,"usage":{"input_tokens":200,"output_tokens":20}}' AS BLOB),356452868);
INSERT INTO "event" VALUES(1,11,1.79493571085765862465e+09,'settings',CAST('{"title":"The attic"}' AS BLOB),1836527604);
INSERT INTO "event" VALUES(1,12,1.79493571085842561722e+09,'run_started',CAST('{}' AS BLOB),3608937836);
INSERT INTO "event" VALUES(1,13,1.79493571085842561722e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"What else?"}]}}' AS BLOB),3286349604);
INSERT INTO "event" VALUES(1,14,1.79493571085930228233e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"Nothing else."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),1334669174);
INSERT INTO "event" VALUES(1,15,1.79493571085930228233e+09,'run_stopped',CAST('{"status":"done","turns":1,"usage":{"input_tokens":100,"output_tokens":10}}' AS BLOB),282575131);
INSERT INTO "event" VALUES(2,1,1.79493571086137080193e+09,'began',CAST('{"session":"1032feb630534b875d2d64ec3501d7ec","version":"0.2.0"}' AS BLOB),182644198);
INSERT INTO "event" VALUES(2,2,1.79493571086137080193e+09,'settings',CAST('{"model":"scripted","system":"","limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":"","seal":"15954df28621e732ce70980101e8c131f071083f86c2ecc77b20d3eb7c962445"}' AS BLOB),144206452);
INSERT INTO "event" VALUES(2,3,1.79493571086359858513e+09,'run_started',CAST('{}' AS BLOB),2508535414);
INSERT INTO "event" VALUES(2,4,1.79493571086359858513e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Count."}]}}' AS BLOB),1258527676);
INSERT INTO "event" VALUES(2,5,1.79493571086446714401e+09,'requested',CAST('{"system":"","tools":[],"server_tools":[],"settings":{},"output_schema":null,"reminder":""}' AS BLOB),716997924);
INSERT INTO "event" VALUES(2,6,1.79493571086446714401e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"One."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),1018450900);
INSERT INTO "event" VALUES(2,7,1.79493571086446714401e+09,'run_stopped',CAST('{"status":"done","turns":1,"usage":{"input_tokens":100,"output_tokens":10}}' AS BLOB),3701856127);
INSERT INTO "event" VALUES(2,8,1.79493571086531829834e+09,'run_started',CAST('{}' AS BLOB),2699316406);
INSERT INTO "event" VALUES(2,9,1.79493571086531829834e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Go on."}]}}' AS BLOB),2728635696);
INSERT INTO "event" VALUES(2,10,1.79493571086610150337e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"Two."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),3299096653);
INSERT INTO "event" VALUES(2,11,1.79493571086610150337e+09,'run_stopped',CAST('{"status":"done","turns":1,"usage":{"input_tokens":100,"output_tokens":10}}' AS BLOB),2746153842);
INSERT INTO "event" VALUES(2,12,1.79493571087041378021e+09,'compacted',CAST('{"summary":{"role":"user","content":[{"type":"text","text":"[The earlier part of this conversation was replaced by this summary to save room. Nothing is lost: Recall(query=\"…\") searches the earlier messages and results, and Recall(reference=\"…\") reads one of them whole. Use it when a detail is missing, and do not guess. The newest messages follow.]\n\n## Goal\nCount."},{"type":"text","text":"The newest messages of the user before this point, verbatim:\n\n> Count.\n\n> Go on."}]},"kept":1,"reason":"manual","tokens_before":110,"tokens_after":600,"usage":{"input_tokens":100,"output_tokens":10},"model":"scripted"}' AS BLOB),2642808274);
INSERT INTO "event" VALUES(2,13,1.79493571087163209915e+09,'run_started',CAST('{}' AS BLOB),3548078423);
INSERT INTO "event" VALUES(2,14,1.79493571087163209915e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Go on."}]}}' AS BLOB),331084707);
INSERT INTO "event" VALUES(2,15,1.79493571087241315842e+09,'requested',CAST('{"tools":[{"name":"Recall","description":"Look behind the summary and the cleared and shortened results of this session. query searches all earlier messages, calls and results. reference reads one whole: the id of a call, #N for message N, or attachment:HASH. Long texts have pages.","parameters":{"type":"object","properties":{"query":{"type":"string","description":"Words to find, in any order; \"a phrase\" in quotes."},"reference":{"type":"string"},"page":{"type":"integer","minimum":1}},"additionalProperties":false},"is_answer":false,"deferred":""}]}' AS BLOB),3155547367);
INSERT INTO "event" VALUES(2,16,1.79493571087241315842e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"text","text":"Three."}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"end","model":"scripted","first_token":0.0}' AS BLOB),1970142563);
INSERT INTO "event" VALUES(2,17,1.79493571087241315842e+09,'run_stopped',CAST('{"status":"done","turns":1,"usage":{"input_tokens":100,"output_tokens":10}}' AS BLOB),3378565367);
INSERT INTO "event" VALUES(3,1,1.79493571087423086166e+09,'began',CAST('{"session":"76064f3849e7f9014899464e382cb877","version":"0.2.0"}' AS BLOB),2210759323);
INSERT INTO "event" VALUES(3,2,1.79493571087423086166e+09,'settings',CAST('{"model":"scripted","system":"","tools":["look","leave"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":"","seal":"6ce528c65f209b77071c7d1f6d29240f8682b17b7b1c3835f571de6913bedc38"}' AS BLOB),3795856448);
INSERT INTO "event" VALUES(3,3,1.79493571087533831596e+09,'run_started',CAST('{}' AS BLOB),4220267688);
INSERT INTO "event" VALUES(3,4,1.79493571087533831596e+09,'message',CAST('{"message":{"role":"user","content":[{"type":"text","text":"Look left, then leave."}]}}' AS BLOB),957292745);
INSERT INTO "event" VALUES(3,5,1.79493571087629890442e+09,'requested',CAST('{"system":"","tools":[{"name":"look","description":"Look at a place.","parameters":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"],"additionalProperties":false},"is_answer":false,"deferred":""},{"name":"leave","description":"Leave, and never return.","parameters":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"],"additionalProperties":false},"is_answer":false,"deferred":""}],"server_tools":[],"settings":{},"output_schema":null,"reminder":""}' AS BLOB),29937399);
INSERT INTO "event" VALUES(3,6,1.79493571087629890442e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look","input":{"place":"left"}}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"tool_use","model":"scripted","first_token":0.0}' AS BLOB),2753246546);
INSERT INTO "event" VALUES(3,7,1.79493571087629890442e+09,'tool_started',CAST('{"call_id":"call_1","name":"look","effect":"read","key":"76064f3849e7f9014899464e382cb877/call_1","input":{"place":"left"}}' AS BLOB),1925000231);
INSERT INTO "event" VALUES(3,8,1.79493571087945508957e+09,'tool_finished',CAST('{"result":{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"left is empty."}]}}' AS BLOB),984813918);
INSERT INTO "event" VALUES(3,9,1.79493571088033175468e+09,'message',CAST('{"message":{"role":"assistant","content":[{"type":"tool_use","id":"call_2","name":"leave","input":{"place":"the house"}}]},"usage":{"input_tokens":100,"output_tokens":10},"stop_reason":"tool_use","model":"scripted","first_token":0.0}' AS BLOB),1151092376);
INSERT INTO "event" VALUES(3,10,1.79493571088033175468e+09,'tool_started',CAST('{"call_id":"call_2","name":"leave","effect":"write","key":"76064f3849e7f9014899464e382cb877/call_2","input":{"place":"the house"}}' AS BLOB),3358409975);
CREATE TABLE listener (               -- holders that take messages
        session INTEGER PRIMARY KEY,
        fence INTEGER NOT NULL
    );
CREATE TABLE question (
        id TEXT PRIMARY KEY,
        session INTEGER NOT NULL,
        fence INTEGER NOT NULL,           -- of the holder that asks
        call_id TEXT NOT NULL,
        body TEXT NOT NULL,
        asked REAL NOT NULL,
        answer TEXT,                      -- NULL while it waits
        answered_by TEXT NOT NULL DEFAULT '',
        answered REAL
    );
CREATE TABLE reference (
        session INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        PRIMARY KEY (session, sha256)
    ) WITHOUT ROWID;
CREATE TABLE session (
        number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
        id TEXT NOT NULL UNIQUE,
        parent TEXT NOT NULL DEFAULT '',
        title TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '{}', -- the newest value of each setting
        created REAL NOT NULL,
        updated REAL NOT NULL,
        opened INTEGER NOT NULL,          -- counts up with every opening, independent of clocks
        last INTEGER NOT NULL DEFAULT 0,  -- the seq of the newest event
        turns INTEGER NOT NULL DEFAULT 0,
        size INTEGER NOT NULL DEFAULT 0,
        entries INTEGER NOT NULL DEFAULT 0, -- equal to `last`, unless events were lost
        input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0,
        cached_tokens INTEGER NOT NULL DEFAULT 0,
        cache_write_tokens INTEGER NOT NULL DEFAULT 0,
        reasoning_tokens INTEGER NOT NULL DEFAULT 0,
        cost REAL,
        holder TEXT NOT NULL DEFAULT '',  -- the process that has it open
        fence INTEGER NOT NULL DEFAULT 0, -- counts up with every holder; writes with an older number fail
        beat INTEGER NOT NULL DEFAULT 0,  -- counts up while the holder is alive
        beaten REAL NOT NULL DEFAULT 0
    );
INSERT INTO "session" VALUES(1,'3a5ef87ce9bb6d72af9e3e870db0dddf','','The attic','scripted','{"title":"The attic","model":"scripted","system":"Be brief.","tools":["look"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":"","seal":"c0d784c01eb3aaf1a4a659727bbc7bcbfdbb2d9ece6a230e5b43e1df91a604cc"}',1.79493571083473682404e+09,1.79493571085946130753e+09,1,15,3,1908,15,300,30,0,0,0,NULL,'',1,0,1.79493571083473682404e+09);
INSERT INTO "session" VALUES(2,'1032feb630534b875d2d64ec3501d7ec','','Count.','scripted','{"model":"scripted","system":"","limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":"","abridged":true,"seal":"15954df28621e732ce70980101e8c131f071083f86c2ecc77b20d3eb7c962445"}',1.79493571086164259911e+09,1.7949357108725976944e+09,2,17,3,2644,17,400,40,0,0,0,NULL,'',1,0,1.79493571086164259911e+09);
INSERT INTO "session" VALUES(3,'76064f3849e7f9014899464e382cb877','','Look left, then leave.','scripted','{"model":"scripted","system":"","tools":["look","leave"],"limits":{"max_turns":50,"max_total_tokens":null,"max_cost":null,"max_seconds":null,"max_repeats":10,"max_subagents":200,"tool_seconds":600.0,"result_characters":50000,"attachment_bytes":20971520},"cwd":"/","effort":"","seal":"6ce528c65f209b77071c7d1f6d29240f8682b17b7b1c3835f571de6913bedc38"}',1.79493571087451601028e+09,1.79493571088048434258e+09,3,10,2,1829,10,200,20,0,0,0,NULL,'',1,0,1.79493571087451601028e+09);
CREATE TABLE signal (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL,
        fence INTEGER NOT NULL,           -- of the holder that it is for
        body TEXT NOT NULL,
        sent REAL NOT NULL,
        taken REAL
    );
CREATE INDEX session_opened ON session (opened);
CREATE INDEX session_parent ON session (parent) WHERE parent != '';
CREATE INDEX question_session ON question (session);
CREATE INDEX signal_session ON signal (session);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('session',3);
COMMIT;
PRAGMA application_id=1330992210;
PRAGMA user_version=2;
