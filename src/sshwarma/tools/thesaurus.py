"""English words that `/find` compares: stop words, and words with about the same meaning.

Data, not code; docs/decisions/023-own-stemmer-and-thesaurus.md says what it is worth.
"""

from __future__ import annotations

from typing import Final

STOP_WORD_LIST: Final = """
    a about all also am an and any anyone are as at be because been before being both but by can
    cannot cant could did didnt do does doesnt doing done dont down each else even ever every for
    from gave get gets getting give go goes going gonna gone got had has hasnt have havent having he
    hello hello help helping her here hers hey hi him his how i id if ill im in instead into is isnt
    it its itself ive just kind kindly know let lets like lot make makes making many may maybe me
    might mine more most much must my myself need needs never new no not now of off oh ok okay on
    once one only or other our ours out over own please quite rather really right she should so some
    somebody someone something somewhere sort still such sure take tell than thank thanks that thats
    the their them then there theres these they theyre thing things think this those to too tool
    tools up us use used using very via want wanted wants was way we well were what whatever whats
    when where whether which while who whom whose why will with without wont would yes yet you your
    yours
"""

SENSE_LINES: Final = """
    create add new make generate build write compose draft insert
    start begin launch run open boot trigger execute kick
    stop end halt cancel abort kill shut terminate close quit pause
    delete remove erase drop destroy discard purge wipe clear rid trash
    list show view display see browse enumerate overview inspect look
    update edit change modify alter amend adjust revise correct tweak rename
    find search locate query discover lookup hunt seek
    fix repair resolve mend solve patch heal debug troubleshoot
    deploy ship release publish rollout launch promote
    push upload send submit deliver post
    pull download fetch retrieve get receive import
    undo revert rollback restore reset recover
    copy duplicate clone replicate mirror
    move transfer migrate relocate shift
    merge combine join unite integrate
    split divide separate break
    connect link attach bind associate relate tie
    approve accept confirm permit allow grant sign
    reject deny refuse decline block forbid ban
    check verify test validate inspect examine audit lint
    compare diff difference contrast versus
    measure benchmark profile time
    count number amount total quantity sum
    store save keep persist archive back
    buy purchase order acquire
    pay payment charge bill invoice money cost price fee owe
    refund reimburse repay
    error bug defect fault failure issue crash exception broken wrong fail
    slow latency performance speed lag fast
    alert alarm warn notify page remind notification
    log trace record history audit
    password secret credential token key login
    user account member person people customer client employee colleague staff teammate
    team group crew department
    permission access right role privilege
    machine server host instance vm computer node box
    container docker pod image
    database db table sql schema
    file document doc attachment
    folder directory path
    picture photo image drawing illustration graphic
    mail email message letter inbox
    talk chat conversation discuss conversation thread
    meeting appointment calendar event schedule booking
    task todo ticket issue card chore
    website site page web url
    code source program software script
    repository repo project codebase
    branch fork
    version release tag
    requirement spec specification need
    chart graph plot visualize dashboard diagram
    table spreadsheet sheet row column cell
    translate language localize
    summary summarize digest recap brief
    question answer ask faq
    rule policy regulation
    weather forecast rain temperature sunny snow storm
    place map location address route direction
    travel trip flight hotel journey
    song music audio sound voice speech track
    video film movie clip recording
    hire recruit candidate applicant job
    vacation leave holiday absence
    contract agreement deal
    stock inventory warehouse supply
    ship parcel package delivery courier
    network dns domain ip firewall
    certificate ssl tls https
    schedule cron timer periodic recurring
    queue job worker background
    backup snapshot archive
    flag toggle switch feature experiment
    dependency package library module
    vulnerability security cve exploit attack
    encrypt decrypt cipher
"""
"""Words of one line mean about the same where tools are concerned."""
